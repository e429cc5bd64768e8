"""The texts of the demo, which lie in the package beside this file."""

import json
from importlib.resources import files
from typing import NamedTuple


class Prompts(NamedTuple):
    """What is asked in the demo."""

    prompts: tuple[str, ...]
    """Those that are compared."""
    companions: tuple[str, ...]
    """Those that only share a batch with them."""


def load_prompts() -> Prompts:
    """Read demo_prompts.json."""
    data = json.loads(files("samebits.audit").joinpath("demo_prompts.json").read_text("utf-8"))
    return Prompts(tuple(data["prompts"]), tuple(data["companions"]))
