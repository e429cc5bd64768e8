"""Where an audit keeps what it sees, as the runner needs it."""

from collections.abc import Mapping
from typing import Any, Protocol

from samebits.audit.observation import Observation
from samebits.audit.probe import Probe
from samebits.audit.record import End, NotTested, Opened


class Journal(Protocol):
    """Keeps everything as it comes; RecordWriter is one."""

    def append(
        self, item: Observation | Opened | NotTested | Probe | End | Mapping[str, Any]
    ) -> None:
        """Keep something; a mapping is a note."""
        ...
