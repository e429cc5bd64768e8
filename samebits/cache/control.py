"""What a caller may say about the cache for one request, as HTTP does (RFC 9111)."""

from dataclasses import dataclass

from samebits.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """How far a request may be answered from the cache.

    Raises:
        ConfigError: Two that contradict each other, or an age below 0.
    """

    no_cache: bool = False
    """Compute it, whatever is kept or under way, and share that with nobody; the answer is kept."""
    no_store: bool = False
    """Keep nothing of it, and share nothing that is under way; what is kept may be replayed."""
    max_age_s: float | None = None
    """Take no older entry."""
    only_if_cached: bool = False
    """Replay or refuse: never compute."""

    def __post_init__(self) -> None:
        if self.only_if_cached and self.no_cache:
            raise ConfigError(
                expected="no_cache or only_if_cached", found="both: nothing could be answered"
            )
        # Not `< 0`, which NaN passes.
        if self.max_age_s is not None and not self.max_age_s >= 0:
            raise ConfigError(expected="max_age_s: 0 or more seconds", found=repr(self.max_age_s))

    @property
    def shares(self) -> bool:
        """Whether an equal request under way may answer it."""
        return not (self.no_cache or self.no_store or self.only_if_cached)
