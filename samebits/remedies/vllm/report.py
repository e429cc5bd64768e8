"""Where the guard tells what it did: vLLM's log, and a file of JSON lines that the operator named.

vLLM has no way for a processor to add to a response. A line holds counts, token ids and numbers.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any

from samebits.remedies.vllm.guarded import Guarded

LOG = logging.getLogger("vllm.samebits_guard")
"""Below vLLM's own logger, whose handlers and level it uses."""


class Report:
    """Tell of each guarded request that leaves the batch."""

    def __init__(self, file: Path | None) -> None:
        self.file = file

    def __call__(self, guarded: Guarded) -> None:
        """Write a line to the log, and to the file if there is one."""
        value = guarded.value()
        LOG.info(
            "samebits guard, request %d: %s within %g, %d of %d steps fired, %d changed,"
            " %d escalations failed, %d steps unjudged",
            *(value[key] for key in ("request", "action", "epsilon", "fired", "steps", "changed")),
            value["unavailable"],
            value["unjudged"],
        )
        if self.file is not None:
            self.append({"worker": os.getpid(), **value})

    def append(self, value: dict[str, Any]) -> None:
        """Append a line; a full disk costs the line, not the server."""
        assert self.file is not None
        try:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(value, allow_nan=False) + "\n")
        except OSError as error:
            LOG.warning("samebits guard: no report in %s: %s", self.file, error)
