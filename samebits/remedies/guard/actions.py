"""What decides between tokens that are too close to call.

Only escalation asks something that does not depend on the condition a step ran under. The other
two are functions of the candidates, and the candidates themselves differ between conditions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from samebits.errors import ConfigError, UnsupportedInput
from samebits.remedies.guard.candidates import Logits, argmax, widen

Entries = tuple[tuple[Any, Any], ...]
"""For each layer keys and values, (H, T, D), of all tokens of one sequence."""


class Verdict(NamedTuple):
    """What an action decided."""

    token: int
    canonical: Logits | None = None
    """(V,), where an oracle was asked."""
    keys_values: Entries | None = None
    """Of the whole sequence, where the oracle has them to repair a cache with."""


class Canonical(NamedTuple):
    """What an oracle makes of a sequence."""

    logits: Logits
    """(V,), raw, after the last token."""
    keys_values: Entries | None


@runtime_checkable
class Action(Protocol):
    """Choose among candidates."""

    def decide(self, ids: Sequence[int], found: Sequence[int], logits: Logits) -> Verdict:
        """Choose a token.

        Args:
            ids: The sequence so far, prompt and tokens, without padding.
            found: The candidates, ascending. logits: (V,), raw, of the guarded step.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Say what is done, as plain values."""
        ...


@runtime_checkable
class Oracle(Protocol):
    """Give logits that are a function of the token ids alone, on this machine and these settings.

    Nothing else may reach the bits: no neighbours, padding, cache or chunks.
    """

    def decide(self, ids: Sequence[int]) -> Logits:
        """Give the raw logits (V,) after the last id; float16, float32 or float64."""
        ...

    def describe(self) -> str:
        """Say in one line how they are made."""
        ...


@runtime_checkable
class RepairingOracle(Oracle, Protocol):
    """An oracle that also has the keys and values of its own pass."""

    def recompute(self, ids: Sequence[int]) -> Canonical:
        """Give what `decide` gives, with the keys and values of all ids."""
        ...


@dataclass(frozen=True, slots=True)
class LowestId:
    """Choose the lowest id among the candidates.

    Settles exact ties that two paths break differently. Does not help where values move: it only
    moves the flip from a gap of 0 to a gap of epsilon.
    """

    def decide(self, ids: Sequence[int], found: Sequence[int], logits: Logits) -> Verdict:
        """Choose a token; see `Action`."""
        return Verdict(min(found))

    def describe(self) -> dict[str, Any]:
        """Say what is done, as plain values."""
        return {"name": "lowest-id"}


@dataclass(frozen=True, slots=True)
class Priority:
    """Choose the candidate that comes first in a fixed list; the lowest id if none is in it.

    For answers of a known few tokens, such as yes and no. Has the limits of `LowestId`.

    Raises:
        ConfigError: The list is empty, has an id twice, or something that is no id.
    """

    ids: tuple[int, ...]

    def __post_init__(self) -> None:
        # By type: True and 1.5 are no ids, and a float that equals one would be found as it.
        are_ids = all(type(token) is int and token >= 0 for token in self.ids)
        if not self.ids or not are_ids or len(set(self.ids)) < len(self.ids):
            raise ConfigError(
                expected="token ids, each at least 0 and named once", found=str(list(self.ids))
            )

    def decide(self, ids: Sequence[int], found: Sequence[int], logits: Logits) -> Verdict:
        """Choose a token; see `Action`.

        Raises:
            ConfigError: An id of the list is none of this model's.
        """
        if max(self.ids) >= len(logits):
            raise ConfigError(expected=f"ids below {len(logits)}", found=str(max(self.ids)))
        listed = [token for token in self.ids if token in found]
        return Verdict(listed[0] if listed else min(found))

    def describe(self) -> dict[str, Any]:
        """Say what is done, as plain values."""
        return {"name": "priority", "ids": list(self.ids), "else": "lowest-id"}


@dataclass(frozen=True, slots=True)
class Escalate:
    """Ask an oracle, and choose the greatest of its logits among all tokens.

    Among all, not among the candidates: what lies within epsilon differs between conditions, so
    only a choice among all is a function of the ids.

    Raises:
        ConfigError: What is given is no oracle.
    """

    oracle: Oracle

    def __post_init__(self) -> None:
        # A class has the methods of its instances, too.
        if isinstance(self.oracle, type) or not isinstance(self.oracle, Oracle):
            raise ConfigError(
                expected="an oracle: with decide(ids) and describe()",
                found=repr(self.oracle),
            )

    def decide(self, ids: Sequence[int], found: Sequence[int], logits: Logits) -> Verdict:
        """Choose a token; see `Action`.

        Raises:
            UnsupportedInput: The oracle has another vocabulary, or its logits are not finite.
        """
        canonical = ask(self.oracle, ids)
        if len(widen(canonical.logits)) != len(logits):
            raise UnsupportedInput(
                expected=f"{len(logits)} logits from the oracle, as from the model",
                found=str(len(canonical.logits)),
            )
        return Verdict(argmax(canonical.logits), canonical.logits, canonical.keys_values)

    def describe(self) -> dict[str, Any]:
        """Say what is done, as plain values."""
        return {"name": "escalate", "oracle": self.oracle.describe()}


def ask(oracle: Oracle, ids: Sequence[int]) -> Canonical:
    """Ask for logits, and for keys and values where the oracle has them."""
    if isinstance(oracle, RepairingOracle):
        return oracle.recompute(ids)
    return Canonical(oracle.decide(ids), None)
