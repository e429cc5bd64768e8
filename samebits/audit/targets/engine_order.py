"""What one call asks of our engine: the parameters, and which texts run beside the observed one.

Knows no engine under way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from samebits.audit.condition import Call
from samebits.engine import SamplingParams
from samebits.errors import RequestError, TargetError

Ids = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one prompt is asked for."""

    call: Call
    max_tokens: int
    ignore_eos: bool
    companions: Sequence[Ids]
    """Texts to take neighbours from."""

    @property
    def num_requests(self) -> int:
        """Requests under way at once."""
        return max(self.call.batch, self.call.concurrency)

    @property
    def place(self) -> int:
        """The observed one among them: the row asked for, or the middle one of those at once."""
        return self.call.position if self.call.batch > 1 else self.call.concurrency // 2

    def params(self, *, is_observed: bool) -> SamplingParams:
        """Make the parameters of a request."""
        call = self.call
        given: dict[str, Any] = {
            "max_tokens": self.max_tokens,
            "temperature": call.temperature,
            "ignore_eos": self.ignore_eos,
            "n": call.n if is_observed else 1,
            # The engine's 0 reports the chosen token alone; the call's 0 asks for nothing.
            "logprobs": 0 if call.logprobs is None else call.logprobs or None,
        }
        if call.seed != "absent":
            given["seed"] = read_seed(call.seed)
        if not is_observed and call.neighbour_seed is not None:
            given["seed"] = call.neighbour_seed
        return SamplingParams(**given)

    def rows(self, ids: Ids) -> list[Ids]:
        """Put a prompt among its neighbours, all of its length."""
        rows = list(islice(self.neighbours(ids), self.num_requests - 1))
        rows.insert(self.place, ids)
        return rows

    def neighbours(self, ids: Ids) -> Iterator[Ids]:
        """Give neighbours without end.

        Raises:
            TargetError: There is no text to make them of.
        """
        number = self.num_requests if self.call.neighbours == "more" else 0
        if self.call.neighbours != "copies" and not any(self.companions):
            raise TargetError(expected="companions to make neighbours of", found="none")
        while True:
            if self.call.neighbours == "copies":
                yield ids
            else:
                yield fit(self.companions, number, len(ids))
            number += 1


def fit(companions: Sequence[Ids], number: int, length: int) -> Ids:
    """Make the neighbour of a number: a companion cut or repeated to a length.

    When all companions are used, they come again, each a token further on.
    """
    shift, which = divmod(number, len(companions))
    source = companions[which]
    return [source[(shift + i) % len(source)] for i in range(length)]


def read_seed(seed: str) -> int | None:
    """Turn a seed's spelling into what the engine takes.

    Raises:
        RequestError: It is no decimal number and not null.
    """
    if seed == "null":
        return None
    if not seed.isdecimal():
        raise RequestError(expected="a seed: a decimal number, absent or null", found=repr(seed))
    return int(seed)
