"""The one error tree.

    SamebitsError
    ├── ConfigError          a setting, flag or model config is wrong or not implemented
    ├── ModelFileError       a weight, tokenizer or config file is damaged or foreign
    ├── UnsupportedInput     an array of a dtype, layout or value that no operation takes
    ├── RequestError         one request cannot be served
    │   ├── NotCached        only a kept answer was allowed, and there is none
    │   ├── RequestTooLong
    │   └── UnknownParameter
    ├── TargetError          an audited model or endpoint does not answer
    │   └── TargetStopped    somebody ended its process
    ├── LockMismatch         the environment is not the locked one
    ├── RecordCorrupt        a saved thing does not match its digest or format
    └── InvariantBroken      our own promise failed: a bug, report it

Each error says what was expected, what was found and what to do.
"""

from collections.abc import Sequence


class SamebitsError(Exception):
    """Carry the facts of a refusal.

    Attributes:
        expected: What would have been accepted.
        found: What was there instead.
        remedy: What the reader can do now; empty if nothing is known.
    """

    def __init__(self, *, expected: str, found: str, remedy: str = "") -> None:
        self.expected = expected
        self.found = found
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"expected {self.expected}; found {self.found}"
        return f"{text}. {self.remedy}" if self.remedy else text


class ConfigError(SamebitsError):
    """Refuse a setting, a flag or a model configuration."""


class ModelFileError(SamebitsError):
    """Refuse a damaged or foreign model file."""


class UnsupportedInput(SamebitsError):
    """Refuse an array whose dtype, layout or values no operation takes."""


class RequestError(SamebitsError):
    """Refuse one request."""


class NotCached(RequestError):
    """Refuse a request that only the output cache may answer, and that it does not hold.

    Attributes:
        differences: What differs from the nearest recording, as samebits.cache.nearest names it.
    """

    def __init__(
        self, *, expected: str, found: str, remedy: str = "", differences: Sequence[object] = ()
    ) -> None:
        self.differences = tuple(differences)
        super().__init__(expected=expected, found=found, remedy=remedy)


class RequestTooLong(RequestError):
    """Refuse a request that does not fit the context or the pages."""


class UnknownParameter(RequestError):
    """Refuse a parameter nobody reads."""


class TargetError(SamebitsError):
    """Report that an audited model or endpoint does not answer, or not in its protocol."""


class TargetStopped(TargetError):
    """Report that a target's process was ended by somebody: no fault of what ran in it."""


class LockMismatch(SamebitsError):
    """Report an environment other than the locked one.

    Attributes:
        differences: Each as samebits.lock.compare names it.
    """

    def __init__(
        self, *, expected: str, found: str, remedy: str = "", differences: Sequence[object] = ()
    ) -> None:
        self.differences = tuple(differences)
        super().__init__(expected=expected, found=found, remedy=remedy)


class RecordCorrupt(SamebitsError):
    """Refuse a saved thing that does not match its digest or format."""


class InvariantBroken(SamebitsError):
    """Report that one of our own promises failed."""
