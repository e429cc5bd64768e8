"""Shows rounding on the user's own numbers: a dot product in other formats and orders.

Pure Python, so that no library's arithmetic stands between the reader and the rule: a result is
computed in binary64 and rounded to nearest, ties to even. For one addition or multiplication of
operands of at most 24 bits this equals rounding once, since 53 >= 2 * 24 + 2 (Figueroa, "When is
double rounding innocuous?", 1995).
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from samebits.audit.probe import NearTie, Operands

Round = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A floating-point format narrower than binary64."""

    name: str
    round: Round
    digits: int
    """Hexadecimal digits of its bits."""
    significand: int
    """Bits, with the hidden one."""
    lowest: int
    """Exponent of the smallest normal number, as 2**lowest."""

    def bits(self, value: float) -> str:
        """Spell the bits of a number of this format."""
        code = "<e" if self.name == "float16" else "<f"
        whole = struct.pack(code, value)[::-1].hex()
        return whole[: self.digits]

    def gap(self, value: float) -> float:
        """Give the distance from a number to the next larger one in magnitude."""
        if not math.isfinite(value):
            return math.inf
        exponent = math.frexp(value)[1] - 1 if value else self.lowest
        return math.ldexp(1.0, max(exponent, self.lowest) - self.significand + 1)


def round_packed(value: float, code: str) -> float:
    """Round by packing; what is too large becomes infinite."""
    try:
        found: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return found


def round_float32(value: float) -> float:
    """Round to binary32."""
    return round_packed(value, "<f")


def round_float16(value: float) -> float:
    """Round to binary16."""
    return round_packed(value, "<e")


def round_bfloat16(value: float) -> float:
    """Round to the upper half of a binary32."""
    single = round_float32(value)
    if not math.isfinite(single):
        return single
    bits = struct.unpack("<I", struct.pack("<f", single))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    found: float = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]
    return found


FORMATS = (
    Format(name="float32", round=round_float32, digits=8, significand=24, lowest=-126),
    Format(name="float16", round=round_float16, digits=4, significand=11, lowest=-14),
    Format(name="bfloat16", round=round_bfloat16, digits=4, significand=8, lowest=-126),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorbed:
    """One addition in one format."""

    format: Format
    total: float
    addend: float
    result: float
    gap: float
    """Distance from the total to the next number."""
    num_lost: int
    """Products of the whole dot product that left its running sum as it was."""

    @property
    def arrived(self) -> float:
        """Share of the addend that is in the result; 0: none of it."""
        return (self.result - self.total) / self.addend if self.addend else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorption:
    """One addition of the dot product, in each format."""

    step: int
    """Which product was added, from 0."""
    num_products: int
    """Products that are not zero."""
    rows: tuple[Absorbed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """One order of addition in one format."""

    order: str
    """Key."""
    format: Format
    value: float
    bits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """A dot product added up in every order and format."""

    exact: float
    """Correctly rounded to binary64."""
    sums: tuple[Sum, ...]

    def distinct(self, name: str) -> int:
        """Count the different bits in one format."""
        return len({item.bits for item in self.sums if item.format.name == name})


def is_usable(operands: Operands) -> bool:
    """Answer whether there is a dot product of finite numbers to show."""
    numbers = (*operands.x, *operands.w)
    return 1 < len(operands.x) == len(operands.w) and all(map(math.isfinite, numbers))


def multiply(operands: Operands, form: Format) -> list[float]:
    """Round the operands to a format and multiply them in it."""
    pairs = zip(operands.x, operands.w, strict=True)
    return [form.round(form.round(x) * form.round(w)) for x, w in pairs]


def absorb(operands: Operands) -> Absorption | None:
    """Pick the largest addend, against the sum so far, that bfloat16 loses wholly.

    Where it loses none, the smallest addend is taken. None if fewer than two products count.
    """
    products = [x * w for x, w in zip(operands.x, operands.w, strict=True)]
    totals = list(accumulate(products))
    steps = [i for i in range(1, len(products)) if products[i] and totals[i - 1]]
    if not steps:
        return None

    def size(step: int) -> float:
        return abs(products[step] / totals[step - 1])

    lost = [i for i in steps if loses(FORMATS[-1], totals[i - 1], products[i])]
    step = max(lost, key=size) if lost else min(steps, key=size)
    return Absorption(
        step=step,
        num_products=sum(map(bool, products)),
        rows=tuple(add_once(operands, form, totals[step - 1], products[step]) for form in FORMATS),
    )


def loses(form: Format, total: float, addend: float) -> bool:
    """Answer whether an addend that the format can hold leaves the total as it was."""
    held, small = form.round(total), form.round(addend)
    return small != 0 and form.round(held + small) == held


def add_once(operands: Operands, form: Format, total: float, addend: float) -> Absorbed:
    """Add one product in a format; count those that the whole sum loses."""
    held, small = form.round(total), form.round(addend)
    products = multiply(operands, form)
    sums = list(accumulate(products, lambda a, b: form.round(a + b)))
    lost = sum(p != 0 and s == r for p, s, r in zip(products[1:], sums, sums[1:], strict=False))
    return Absorbed(
        format=form,
        total=held,
        addend=small,
        result=form.round(held + small),
        gap=form.gap(held),
        num_lost=lost,
    )


def sum_orders(operands: Operands) -> Sums:
    """Add up the dot product in every order and format."""
    exact = math.fsum(x * w for x, w in zip(operands.x, operands.w, strict=True))
    found = []
    for form in FORMATS:
        products = multiply(operands, form)
        for order, add in ORDERS.items():
            value = add(products, form.round)
            found.append(Sum(order=order, format=form, value=value, bits=form.bits(value)))
    return Sums(exact=exact, sums=tuple(found))


def add_forward(values: Sequence[float], rounded: Round) -> float:
    """Add from the first to the last."""
    total = 0.0
    for value in values:
        total = rounded(total + value)
    return total


def add_pairwise(values: Sequence[float], rounded: Round) -> float:
    """Add halves, each added up in the same way."""
    if len(values) <= 2:
        return add_forward(values, rounded)
    middle = len(values) // 2
    left, right = values[:middle], values[middle:]
    return rounded(add_pairwise(left, rounded) + add_pairwise(right, rounded))


def add_blocks(size: int) -> Callable[[Sequence[float], Round], float]:
    """Add blocks of neighbours first, then their sums."""

    def add(values: Sequence[float], rounded: Round) -> float:
        blocks = [values[i : i + size] for i in range(0, len(values), size)]
        return add_forward([add_forward(block, rounded) for block in blocks], rounded)

    return add


ORDERS: dict[str, Callable[[Sequence[float], Round], float]] = {
    "forward": add_forward,
    "backward": lambda values, rounded: add_forward(values[::-1], rounded),
    "pairwise": add_pairwise,
    "blocks-8": add_blocks(8),
    "blocks-16": add_blocks(16),
    "sorted": lambda values, rounded: add_forward(sorted(values, key=abs), rounded),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One token of a near-tie, with its share of the softmax over the candidates."""

    token: str
    base: float
    """Logit, here and below."""
    treated: float
    base_share: float
    treated_share: float
    wins_base: bool
    wins_treated: bool


def compare_tie(tie: NearTie) -> tuple[Candidate, ...]:
    """Take the softmax of the candidates under both conditions; the first greatest wins."""
    base, treated = softmax(tie.base), softmax(tie.treated)
    winners = (first_greatest(tie.base), first_greatest(tie.treated))
    return tuple(
        Candidate(
            token=token,
            base=tie.base[i],
            treated=tie.treated[i],
            base_share=base[i],
            treated_share=treated[i],
            wins_base=i == winners[0],
            wins_treated=i == winners[1],
        )
        for i, token in enumerate(tie.tokens)
    )


def first_greatest(logits: Sequence[float]) -> int:
    """Give the place of the greatest logit, the first among equals."""
    return max(range(len(logits)), key=lambda i: logits[i])


def softmax(logits: Sequence[float]) -> list[float]:
    """Share one among the candidates."""
    top = max(logits)
    powers = [math.exp(logit - top) for logit in logits]
    total = math.fsum(powers)
    return [power / total for power in powers]
