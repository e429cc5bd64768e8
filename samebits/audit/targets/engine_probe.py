"""Where the bits of one prompt part inside our decoder, and how its rounding grows with depth.

Both conditions are served as they were asked for, with every operation noted for the observed
sequence: up to the first token that differs, since after it the contexts are different questions.
An operation depends only on those before it and on earlier positions: so the first one in order
of execution whose bits differ anywhere is where they part.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samebits.audit.condition import Call
from samebits.audit.probe import NearTie, Operands, Place, Probe
from samebits.audit.targets.engine_call import Served, open_engine
from samebits.audit.targets.engine_loop import Notes
from samebits.audit.targets.engine_order import Ids, Order
from samebits.audit.targets.engine_tape import EMBED, HEAD, NORM, Tape, TapedDecoder
from samebits.engine import Engine
from samebits.engine.sample import best_ids
from samebits.engine.text import Tokenizer
from samebits.model.decoder import Decoder
from samebits.numerics.plain import PlainWeight
from samebits.numerics.values import PANEL, Weight, unpack_weight

Values = NDArray[np.float64]
DTYPES = {"plain-bf16": "bfloat16", "plain-f64": "float64"}
"""What an arithmetic's activations are held in, where it is not float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two conditions of a probe."""

    key: str
    engine: Engine
    order: Order
    ids: Ids
    """The prompt."""

    def serve(self, order: Order, notes: Notes, tape: Tape | None = None) -> Served:
        """Complete the prompt, and note the operations if there is a tape."""
        loaded = self.engine if tape is None else tape_engine(self.engine, tape)
        with open_engine(loaded, order, len(self.ids)) as caller:
            if isinstance(loaded.decoder, TapedDecoder):
                loaded.decoder.locate = caller.loop.locate
            return caller.serve(self.ids, notes)


def tape_engine(engine: Engine, tape: Tape) -> Engine:
    """Build an engine around the same weights whose operations are noted."""
    taped = Engine(
        TapedDecoder(engine.decoder, tape),
        engine.tokenizer,
        limits=engine.limits,
        template=engine.template,
        file_digest=engine.file_digest,
    )
    taped.weights_digest = engine.identity.weights
    return taped


class Yardstick:
    """The same model in float64, loaded when it is first needed."""

    def __init__(self, load: Callable[[], Engine]) -> None:
        self.load = load

    @cached_property
    def engine(self) -> Engine:
        """The loaded model."""
        return self.load()

    def measure(self, ids: Ids) -> dict[str, Values]:
        """Give what each operation gives for the last of some tokens."""
        tape = Tape(last=len(ids) - 1, keep=len(ids) - 1)
        order = Order(call=Call(), max_tokens=1, ignore_eos=True, companions=())
        Side(key="", engine=self.engine, order=order, ids=ids).serve(order, Notes(), tape)
        return tape.values


class Seen(NamedTuple):
    """What was noted of one side."""

    tape: Tape
    served: Served
    logits: NDArray[np.float32]
    """(V,), of the step that is looked at."""


class Span(NamedTuple):
    """Which steps of an output are looked at."""

    num_steps: int
    """Up to and with the first whose token differs."""
    step: int
    """That one, or the nearest tie if no token differs."""


def find_parting(base: Side, treated: Side, prompt_id: str, yardstick: Yardstick) -> Probe | None:
    """Compare two conditions operation by operation; None if they are different questions.

    Raises:
        RequestError: The prompt cannot be served.
        UnsupportedInput: The numbers overflowed.
    """
    if list(base.ids) != list(treated.ids):
        return None
    notes = Notes()
    one, other = base.serve(base.order, notes), treated.serve(treated.order, Notes())
    span = choose_span(one.token_ids, other.token_ids, notes.margins)
    seen = [look(side, span) for side in (base, treated)]
    exact = yardstick.measure([*base.ids, *one.token_ids[: span.step]])
    return Probe(
        prompt=prompt_id,
        base=base.key,
        treated=treated.key,
        places=list_places(seen, exact, len(base.ids), base.engine.decoder.config.num_layers),
        operands=make_operands(base.engine.decoder, seen[0]),
        tie=make_tie(prompt_id, span.step, seen, base.engine.tokenizer),
    )


def choose_span(base: Ids, treated: Ids, margins: Sequence[float]) -> Span:
    """Choose the steps to look at from two outputs and the margins under the base."""
    common = count_common(base, treated)
    shorter = min(len(base), len(treated))
    if common < shorter:
        return Span(common + 1, common)
    return Span(shorter, int(np.argmin(margins[:shorter])))


def count_common(one: Ids, other: Ids) -> int:
    """Count the leading tokens that two outputs share."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def look(side: Side, span: Span) -> Seen:
    """Serve one side once more, with every operation noted."""
    first = len(side.ids) - 1
    tape = Tape(last=first + span.num_steps - 1, keep=first + span.step)
    notes = Notes(keep=span.step)
    served = side.serve(replace(side.order, max_tokens=span.num_steps), notes, tape)
    # An output that ends earlier than it did before was served by chance in another company.
    logits = notes.logits if notes.logits is not None else np.zeros(0, np.float32)
    return Seen(tape, served, logits)


def list_places(
    seen: Sequence[Seen], exact: Mapping[str, Values], num_prompt: int, num_layers: int
) -> tuple[Place, ...]:
    """Compare every operation at all positions whose tokens are the same."""
    base, treated = seen
    stop = num_prompt + count_common(base.served.token_ids, treated.served.token_ids)
    places = []
    for name, digests in base.tape.digests.items():
        others = treated.tape.digests.get(name, {})
        places.append(
            Place(
                name=name,
                depth=find_depth(name, num_layers),
                is_equal=all(
                    others.get(position, digest) == digest
                    for position, digest in digests.items()
                    if position < stop
                ),
                error_base=relative_error(base.tape.values.get(name), exact.get(name)),
                error_treated=relative_error(treated.tape.values.get(name), exact.get(name)),
            )
        )
    return tuple(places)


def find_depth(name: str, num_layers: int) -> int:
    """Give the layer of an operation, -1 before the first, their number after the last."""
    if name == EMBED:
        return -1
    parts = name.split(".")
    return int(parts[1]) if parts[0] == "layers" else num_layers


def relative_error(x: Values | None, exact: Values | None) -> float | None:
    """Give ||x - exact|| / ||exact||; None if one is missing or exact is zero."""
    if x is None or exact is None or not exact.any():
        return None
    return float(np.linalg.norm(x - exact) / np.linalg.norm(exact))


def make_operands(decoder: Decoder, seen: Seen) -> Operands | None:
    """Give the dot product behind the best logit: the last hidden state and the head's row."""
    if not seen.logits.size or NORM not in seen.tape.values:
        return None
    best = int(best_ids(seen.logits, 1)[0])
    return Operands(
        name=f"{HEAD}[{best}]",
        x=tuple(seen.tape.values[NORM].tolist()),
        w=tuple(read_row(decoder.head, best).tolist()),
        dtype=DTYPES.get(decoder.arithmetic.name, "float32"),
    )


def read_row(head: Weight | PlainWeight, row: int) -> Values:
    """Give one output's weights, (K,): as they are held, or what the integers stand for."""
    if isinstance(head, PlainWeight):
        return np.asarray(head.matrix[row], np.float64)
    panel, place = divmod(row, PANEL)
    integers = unpack_weight(head, panel, panel + 1)[place]
    return np.asarray(integers * head.scale[row], np.float64)


def make_tie(
    prompt_id: str, step: int, seen: Sequence[Seen], tokenizer: Tokenizer
) -> NearTie | None:
    """Put the two best tokens of both sides beside each other, best first under the base."""
    base, treated = (side.logits for side in seen)
    if not base.size or not treated.size:
        return None
    ids = sorted({*best_ids(base, 2).tolist(), *best_ids(treated, 2).tolist()})
    ids.sort(key=lambda token: -base[token])
    return NearTie(
        prompt=prompt_id,
        step=step,
        tokens=tuple(spell_token(tokenizer, token) for token in ids),
        base=tuple(base[ids].tolist()),
        treated=tuple(treated[ids].tolist()),
    )


def spell_token(tokenizer: Tokenizer, token: int) -> str:
    """Give a token's own text."""
    stream = tokenizer.stream_decoder()
    return stream.push(token) + stream.flush()
