"""What a receipt says about the model and the request, and what it only mentions."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from samebits.engine.in_force import Setting
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.order_free import OrderFree
from samebits.numerics.select import describe_choice
from samebits.record.digest import tagged_digest
from samebits.record.receipt import Header, ModelIdentity


def make_header(
    arithmetic: Arithmetic,
    model: ModelIdentity,
    *,
    text: str | None,
    prompt_ids: Sequence[int],
    settings: Mapping[str, Setting],
) -> Header:
    """Describe a request for its receipt.

    Args:
        text: the rendered prompt; None if token ids were given.
    """
    return Header(
        version=version("samebits"),
        arithmetic=arithmetic.name,
        weight_bits=arithmetic.bits if isinstance(arithmetic, OrderFree) else None,
        model=model,
        prompt=None if text is None else tagged_digest("samebits/prompt/v1", text.encode()),
        prompt_ids=tuple(prompt_ids),
        params={
            name: {"value": spell(setting.value), "origin": setting.origin}
            for name, setting in settings.items()
        },
    )


def spell(value: Any) -> Any:
    """Give a mapping string keys and a tuple square brackets, as JSON wants."""
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def observe(arithmetic: Arithmetic) -> dict[str, Any]:
    """Tell what served a request and cannot have reached its bits."""
    choice = describe_choice(arithmetic)
    return {"kernels": choice.kernels, "level": choice.level, "threads": choice.threads}
