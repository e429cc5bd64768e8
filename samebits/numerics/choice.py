"""What was chosen to compute with, and what was considered: plain values for receipts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One kernel set that was considered."""

    name: str
    """native/avx2, portable, ..."""
    failures: tuple[str, ...]
    """Names of the self-test's cases that it failed; empty if it may be used."""
    seconds: float | None
    """Time of the probe; None where there was nothing to compare. Never digested."""

    @property
    def outcome(self) -> str:
        """Say in words how it did."""
        return f"failed: {', '.join(self.failures)}" if self.failures else "passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The kernels in force of an arithmetic."""

    kernels: str
    """native, portable, reference, or numpy for a plain arithmetic."""
    level: str | None
    """Instruction-set level of native kernels."""
    threads: int
    """Threads really in force."""
    has_library: bool
    """Whether this installation has compiled kernels at all."""
    candidates: tuple[Candidate, ...]
    """In the order of preference; empty if nothing was chosen by select_arithmetic."""
