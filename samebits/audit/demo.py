"""The demo experiment: one model, three arithmetics, the same prompts under many changes.

Runs and compares; report/demo.py draws. A change that does not exist for an arithmetic or on this
machine is recorded as not tested, with the reason, and never as passed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from samebits.audit.demo_bench import Bench, Run, Setting, Span
from samebits.audit.demo_prompts import Prompts
from samebits.audit.demo_record import Cell, Change, DemoRecord, Flip, Speed, Subject
from samebits.engine import Engine
from samebits.record.canonical import canonical_bytes
from samebits.record.digest import tagged_digest

ARITHMETICS = ("plain-bf16", "plain-f32", "sb1")
MAX_TOKENS = 10
BATCH = 8
"""Where a change does not touch the batch, a run has this batch: it is shorter."""
SHORT_CHUNK = 7
LOAD_COST = 0.15
"""Share of an arithmetic's time that loading takes, about."""

Tell = Callable[[float, str], None]


class Trial(NamedTuple):
    """A change, the setting that makes it, and the setting it is compared with."""

    change: Change
    setting: Setting
    base: Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked of the demo."""

    name: str
    """What the user calls the model."""
    path: Path
    threads: int | None = None
    max_isa: str | None = None
    """Cap on native kernels."""
    max_tokens: int = MAX_TOKENS
    prompts: Prompts


def make_trials(levels: Sequence[str], threads: int) -> tuple[Trial, ...]:
    """List the changes.

    Args:
        levels: Other levels of the native kernels than the one in force; may be empty.
        threads: Threads in force.
    """
    alone, eight = ("alone", Setting(batch=1)), ("batch 8", Setting(batch=BATCH))
    other = 1 if threads > 1 else 2
    rows = [
        ("batch 2", Setting(batch=2), alone),
        ("batch 8", Setting(batch=BATCH), alone),
        ("batch 32", Setting(batch=32), alone),
        ("neighbours", Setting(batch=BATCH, is_shuffled=True), eight),
        (f"chunks of {SHORT_CHUNK}", Setting(batch=BATCH, chunk_tokens=SHORT_CHUNK), eight),
        (f"threads {other}", Setting(batch=BATCH, threads=other), eight),
        *(
            (f"ISA {level}", Setting(batch=BATCH, kernels="native", level=level), eight)
            for level in levels or ("",)
        ),
        ("NumPy kernels", Setting(batch=BATCH, kernels="portable"), eight),
    ]
    return tuple(
        Trial(Change(key=label.strip(), label=label.strip(), base=base[0]), setting, base[1])
        for label, setting, base in rows
    )


def run_demo(plan: Plan, tell: Tell = lambda _fraction, _label: None) -> DemoRecord:
    """Run every arithmetic under every change.

    Args:
        tell: Told the share of the work that is done, in [0, 1], and what is under way.
    Raises:
        SamebitsError: The model cannot be loaded, or the prompts do not fit it.
    """
    start = time.perf_counter()
    share = 1 / len(ARITHMETICS)
    subjects = []
    trials: tuple[Trial, ...] = ()
    # sb1 goes first: it alone knows the levels, hence the list of changes.
    for place, name in enumerate(reversed(ARITHMETICS)):
        span = Span(tell, place * share, (place + 1) * share, name)
        with load(plan, name, span) as engine:
            bench = Bench(engine, plan.prompts, plan.max_tokens, plan.max_isa)
            trials = trials or make_trials(bench.other_levels(), engine.decoder.arithmetic.threads)
            subjects.append(examine(bench, trials, span.part(LOAD_COST, 1)))
            threads = bench.threads
    tell(1.0, "")
    return DemoRecord(
        version=version("samebits"),
        model=plan.name,
        prompts=plan.prompts.prompts,
        max_tokens=plan.max_tokens,
        threads=threads,
        changes=tuple(trial.change for trial in trials),
        subjects=tuple(reversed(subjects)),
        wall_s=time.perf_counter() - start,
    )


def load(plan: Plan, arithmetic: str, span: Span) -> Engine:
    """Load the model under one arithmetic."""
    loading = span.part(0, LOAD_COST)
    return Engine.load(
        plan.path,
        arithmetic=arithmetic,
        threads=plan.threads,
        max_isa=plan.max_isa,
        progress=lambda fraction: loading.tell(fraction, "loading"),
    )


def examine(bench: Bench, trials: Sequence[Trial], span: Span) -> Subject:
    """Run one arithmetic under every change and compare."""
    reasons = {trial.setting: bench.refuse(trial.setting) for trial in trials}
    settings = {base: None for trial in trials for base in (trial.base, trial.setting)}
    needed = [setting for setting in settings if not reasons.get(setting)]
    total = sum(bench.cost(setting) for setting in needed)
    runs: dict[Setting, Run] = {}
    done = 0.0
    for setting in needed:
        label = next((t.change.label for t in trials if t.setting == setting), "alone")
        cost = bench.cost(setting) / total
        runs[setting] = bench.run(setting, span.part(done, done + cost), label)
        done += cost
    cells = tuple(judge(trial, runs, reasons[trial.setting]) for trial in trials)
    alone = runs[Setting(batch=1)]
    return Subject(
        arithmetic=bench.name,
        kernels=bench.choice.kernels,
        level=bench.choice.level,
        cells=cells,
        logits_digest=digest_logits(alone),
        weights_digest=bench.weights_digest,
        flip=find_flip(trials, runs, bench.prompts.prompts),
        speed=measure_speed(runs, bench.max_tokens),
    )


def judge(trial: Trial, runs: dict[Setting, Run], reason: str) -> Cell:
    """Compare a trial's run with its base, or say why it was not made."""
    if reason:
        return Cell(
            change=trial.change.key,
            num_outputs=0,
            num_logits_differ=0,
            first_logits=None,
            num_outputs_differ=0,
            first_token=None,
            not_tested=reason,
        )
    return compare(trial.change.key, runs[trial.base], runs[trial.setting])


def compare(change: str, base: Run, other: Run) -> Cell:
    """Count the outputs that differ, and find where the first does.

    Logits count up to the first token that differs: after it the texts are different questions.
    """
    tokens, logits = [], []
    for a, b in zip(base.samples, other.samples, strict=True):
        token = find_difference(a.token_ids, b.token_ids)
        stop = None if token is None else token + 1
        tokens.append(token)
        logits.append(find_difference(a.steps[:stop], b.steps[:stop]))
    token_places = [place for place in tokens if place is not None]
    logit_places = [place for place in logits if place is not None]
    return Cell(
        change=change,
        num_outputs=len(tokens),
        num_logits_differ=len(logit_places),
        first_logits=min(logit_places, default=None),
        num_outputs_differ=len(token_places),
        first_token=min(token_places, default=None),
        not_tested=None,
    )


def find_difference(a: Sequence[object], b: Sequence[object]) -> int | None:
    """Find the first place where two sequences differ; None if they are equal."""
    for place, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return place
    return None if len(a) == len(b) else min(len(a), len(b))


def find_flip(
    trials: Sequence[Trial], runs: dict[Setting, Run], prompts: Sequence[str]
) -> Flip | None:
    """Pick the earliest flip of the first change that has one."""
    for trial in trials:
        base, other = runs[trial.base], runs.get(trial.setting)
        if other is None:
            continue
        places = [
            (token, i)
            for i, (a, b) in enumerate(zip(base.samples, other.samples, strict=True))
            if (token := find_difference(a.token_ids, b.token_ids)) is not None
        ]
        if places:
            token, i = min(places)
            return Flip(
                change=trial.change.key,
                prompt=prompts[i],
                before=base.texts[i],
                after=other.texts[i],
                token=token,
            )
    return None


def digest_logits(run: Run) -> str:
    """Digest the logits of every step of every prompt of a run."""
    steps = [list(sample.steps) for sample in run.samples]
    return tagged_digest("samebits/demo-logits/v1", canonical_bytes(steps))


def measure_speed(runs: dict[Setting, Run], max_tokens: int) -> Speed:
    """Read the rates off the runs that were made anyway."""
    alone, largest = runs[Setting(batch=1)], runs[Setting(batch=32)]
    num_outputs = len(alone.samples)
    return Speed(
        prefill_tokens_s=alone.num_prompt_tokens / alone.prefill_s,
        decode_tokens_s=num_outputs * (max_tokens - 1) / (alone.wall_s - alone.prefill_s),
        batched_tokens_s=largest.num_served * max_tokens / largest.wall_s,
    )
