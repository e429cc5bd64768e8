"""Where bits part inside a transformers model: both conditions again, with every module watched.

One process shows what a call changes, the attention implementation and the dtype; what acts at a
process's start it cannot show. Runs in the worker only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from samebits.audit.condition import Condition, Process
from samebits.audit.probe import NearTie, Operands, Place, Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.targets.hf_float64 import read_in_float64
from samebits.audit.targets.hf_generate import Batch, generate, make_choose
from samebits.audit.targets.hf_load import load_model
from samebits.audit.targets.hf_rows import Ids
from samebits.audit.targets.hf_session import HfSession
from samebits.audit.targets.hf_trace import (
    INPUT,
    Trace,
    depth_of,
    is_same,
    measure_error,
    watch,
)
from samebits.remedies.reader import Reader

PROBE_TOKENS = 32
"""Steps within which bits are expected to part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One condition, brought about in this process."""

    condition: Condition
    model: Any
    attention: str
    batch: Batch

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Give a fresh reader, with this arm's attention in force meanwhile."""
        before = self.model.config._attn_implementation
        self.model.set_attn_implementation(self.attention)
        try:
            yield self.batch.open(self.model)
        finally:
            self.model.set_attn_implementation(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The steps that an arm made."""

    tokens: Ids
    logits: tuple[Tensor, ...]
    """(V,) each."""


def probe(
    session: HfSession, base: Condition, treated: Condition, prompt: AuditPrompt
) -> Probe | None:
    """Find where the bits of one prompt part; None if one process cannot show both."""
    can_show_both = all(can_show(session, condition) for condition in (base, treated))
    if not can_show_both or base.call.pick != treated.call.pick:
        return None
    arms = [make_arm(session, condition, prompt) for condition in (base, treated)]
    runs = [run(arm, session.loaded.stop_ids) for arm in arms]
    parted = find_parting(*runs)
    one, other = (trace(arm, parted + 1) for arm in arms)
    sequence = arms[0].batch.rows[arms[0].batch.position] + runs[0].tokens[:parted]
    truth = read_in_float64(choose_widest(arms).model, sequence)
    return Probe(
        prompt=prompt.id,
        base=base.key,
        treated=treated.key,
        places=list_places(one, other, truth, session.facts.in_force["layers"]),
        operands=take_operands(arms[0], one, runs[0].logits[parted]),
        tie=find_tie(session, prompt, *runs),
    )


def can_show(session: HfSession, condition: Condition) -> bool:
    """Answer whether this process can bring a condition about."""
    own = replace(session.loaded.process, instance=0, attention=None, dtype=None)
    process = replace(condition.process, instance=0, attention=None, dtype=None)
    call = condition.call
    is_plain = call.temperature == 0 and not call.scoring and call.clock is None
    return is_plain and process == own and not process.compile


def make_arm(session: HfSession, condition: Condition, prompt: AuditPrompt) -> Arm:
    """Lay out a condition in this process."""
    settings, process = session.loaded.settings, condition.process
    dtype = process.dtype or settings.dtype or str(session.loaded.facts.in_force["dtype"])
    is_loaded = dtype == session.loaded.facts.in_force["dtype"]
    return Arm(
        condition=condition,
        model=session.loaded.model if is_loaded else load_model(settings, Process(dtype=dtype)),
        attention=process.attention or settings.attention,
        batch=session.make_batch(condition.call, session.encode(prompt).ids),
    )


def run(arm: Arm, stop_ids: frozenset[int]) -> Run:
    """Make tokens under an arm, as an answer would be made."""
    tokens: list[int] = []
    logits: list[Tensor] = []
    with arm.reader() as reader:
        for step in generate(
            reader, arm.batch.position, make_choose(arm.condition.call), PROBE_TOKENS
        ):
            tokens.append(int(step.tokens[arm.batch.position]))
            logits.append(step.logits)
            if tokens[-1] in stop_ids:
                break
    return Run(tokens=tuple(tokens), logits=tuple(logits))


def find_parting(base: Run, treated: Run) -> int:
    """Give the first step whose bits differ; the last if none does."""
    pairs = list(zip(base.logits, treated.logits, strict=False))
    differ = (place for place, pair in enumerate(pairs) if not is_same(*pair))
    return next(differ, len(pairs) - 1)


def trace(arm: Arm, num_steps: int) -> Trace:
    """Make the steps again, and keep what every module gave for the observed row."""
    batch = arm.batch
    seen = Trace(row=batch.position, num_rows=len(batch.rows), is_whole=not batch.kv_cache)
    with arm.reader() as reader, watch(arm.model, seen):
        for _ in generate(reader, arm.batch.position, make_choose(arm.condition.call), num_steps):
            pass
    return seen


def choose_widest(arms: list[Arm]) -> Arm:
    """Choose the arm whose weights were rounded least."""
    return max(arms, key=lambda arm: torch.finfo(arm.model.dtype).bits)


def list_places(
    base: Trace, treated: Trace, truth: Trace | None, num_layers: int
) -> tuple[Place, ...]:
    """Compare two traces place by place, in the order of the base."""
    reached = -1
    places = []
    for name in base.outputs:
        if name not in treated.outputs:
            continue
        reached = depth_of(name, reached, num_layers)
        pair = [side.join(name) for side in (base, treated)]
        exact = None if truth is None or name not in truth.outputs else truth.join(name)
        errors = [None if exact is None else measure_error(one[-1], exact[-1]) for one in pair]
        places.append(
            Place(
                name=name,
                depth=reached,
                is_equal=is_same(*align(*pair)),
                error_base=errors[0],
                error_treated=errors[1],
            )
        )
    return tuple(places)


def align(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Keep the last positions that both (T, ...) have: padding and chunks add to the front."""
    count = min(len(one), len(other))
    return one[-count:], other[-count:]


def take_operands(arm: Arm, trace: Trace, logits: Tensor) -> Operands | None:
    """Take the dot product that gave the best token's logit; None if the head is not a matrix."""
    head = arm.model.get_output_embeddings()
    names = [name for name, module in arm.model.named_modules() if module is head]
    if not names or names[0] + INPUT not in trace.outputs:
        return None
    best = int(logits.double().argmax())
    return Operands(
        name=f"{names[0]}[{best}]",
        x=tuple(trace.join(names[0] + INPUT)[-1].tolist()),
        w=tuple(head.weight[best].tolist()),
        dtype=str(head.weight.dtype).removeprefix("torch."),
    )


def find_tie(session: HfSession, prompt: AuditPrompt, base: Run, treated: Run) -> NearTie:
    """Find the step where the tokens part; else the one with the smallest margin."""
    num_common = min(len(base.tokens), len(treated.tokens))
    differ = (x for x in range(num_common) if base.tokens[x] != treated.tokens[x])
    step = next(differ, min(range(num_common), key=lambda x: margin(base.logits[x])))
    pair = [side.logits[step].double() for side in (base, treated)]
    best = [ids for values in pair for ids in values.topk(2).indices.tolist()]
    candidates = sorted(dict.fromkeys(best), key=lambda x: (-float(pair[0][x]), x))
    return NearTie(
        prompt=prompt.id,
        step=step,
        tokens=tuple(session.decode_raw(x) for x in candidates),
        base=tuple(float(pair[0][x]) for x in candidates),
        treated=tuple(float(pair[1][x]) for x in candidates),
    )


def margin(logits: Tensor) -> float:
    """Give the largest logit minus the second largest."""
    first, second = logits.double().topk(2).values.tolist()
    return float(first - second)
