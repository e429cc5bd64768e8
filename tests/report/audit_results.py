"""Analyses written by hand: one for every verdict, and some that are hostile or large."""

import math
from dataclasses import replace
from typing import Any

from samebits.audit.probe import NearTie, Operands, Place, Probe
from samebits.audit.results import (
    Analysis,
    AxisResult,
    Census,
    Comparison,
    LevelResult,
    Outcome,
    Rate,
    Stability,
    Survival,
    Verdict,
)

DIGEST = "sha256:" + "5a" * 32
PROMPTS = tuple(f"p{i:02d}" for i in range(30))
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202eevil\u2066\x00|`*_<b>&amp;"


def make_rate(num: int, of: int) -> Rate:
    share = num / of if of else 0.0
    reach = 1.96 * math.sqrt((share * (1 - share) + 0.01) / max(of, 1))
    return Rate(num=num, of=of, low=max(0.0, share - reach), high=min(1.0, share + reach))


def make_comparison(
    outcome: Outcome, differ: int, of: int = 30, base: int = 0, treated: int = 0
) -> Comparison:
    return Comparison(
        outcome=outcome,
        differ=make_rate(differ, of),
        base_noise=make_rate(base, of),
        treated_noise=make_rate(treated, of),
        pairs=4 * of,
        pairs_differ=4 * differ,
        p_value=3.0**-differ,
        is_found=differ > 5,
        smallest_rate=1 - 0.05 ** (1 / of),
    )


def make_level(
    axis: str,
    level: str,
    verdict: Verdict,
    *,
    tokens: int = 0,
    bits: int | None = 0,
    of: int = 30,
    reason: str = "",
    only_if: str = "",
    base: int = 0,
) -> LevelResult:
    comparisons = {}
    if verdict is not Verdict.NOT_TESTED:
        comparisons[str(Outcome.TOKENS)] = make_comparison(Outcome.TOKENS, tokens, of, base, base)
        if bits is not None:
            comparisons[str(Outcome.BITS)] = make_comparison(Outcome.BITS, bits, of, base, base)
    return LevelResult(
        axis=axis,
        level=level,
        verdict=verdict,
        reason=reason,
        base="{}",
        treated=f'{{"{axis}":{level}}}',
        num_prompts=of,
        num_calls=4 * of,
        num_missing=0,
        comparisons=comparisons,
        first_divergence=3 if tokens else None,
        affected=PROMPTS[: tokens or bits or 0],
        only_if=only_if,
    )


def make_axis(key: str, verdict: Verdict, *levels: LevelResult, **changes: Any) -> AxisResult:
    made = AxisResult(key=key, verdict=verdict, reason="", levels=levels, threshold=None, notes=())
    return replace(made, **changes)


def make_axes() -> tuple[AxisResult, ...]:
    tokens, moves, none = Verdict.CHANGES_TOKENS, Verdict.MOVES_BITS, Verdict.NO_EFFECT
    return (
        make_axis("repeat", none, make_level("repeat", "again", none)),
        make_axis(
            "batch",
            tokens,
            make_level("batch", "2", moves, bits=30),
            make_level(
                "batch", "8", tokens, tokens=12, bits=30, only_if="prompts of 57 tokens or more"
            ),
            threshold=("2", "8"),
        ),
        make_axis("kv-cache", tokens, make_level("kv-cache", "off", tokens, tokens=7, bits=28)),
        make_axis("attention", moves, make_level("attention", "eager", moves, bits=19)),
        make_axis("neighbours", none, make_level("neighbours", "batch 8", none)),
        make_axis("position", none, make_level("position", "row 7 of 8", none)),
        make_axis("stream", none, make_level("stream", "on", none, bits=None)),
        make_axis(
            "first-call",
            Verdict.CANNOT_TELL,
            make_level("first-call", "first", Verdict.CANNOT_TELL, of=6, reason="too few prompts"),
            reason="too few prompts",
        ),
        make_axis(
            "isa",
            Verdict.NOT_TESTED,
            make_level("isa", "avx2", Verdict.NOT_TESTED, reason="an unknown reason of a target"),
            reason="an unknown reason of a target",
        ),
        make_axis("template", Verdict.NOT_TESTED, reason="no template is used, hence no clock"),
        make_axis(
            "seed", none, make_level("seed", "43", none), notes=("an omitted seed is a constant",)
        ),
    )


def make_heat() -> dict[str, dict[str, str]]:
    def row(tokens: int, bits: int, of: int = 30) -> dict[str, str]:
        states = ["tokens"] * tokens + ["bits"] * (bits - tokens)
        states += ["same"] * (of - len(states))
        return dict(zip(PROMPTS, states[::-1] if tokens == 7 else states, strict=False))

    rows = {"repeat": row(0, 0), "batch": row(12, 30), "kv-cache": row(7, 28)}
    rows |= {"attention": row(0, 19), "neighbours": row(0, 0), "position": row(0, 0)}
    rows |= {"stream": row(0, 0) | {"p05": "missing"}, "first-call": row(0, 0, 6)}
    return rows | {"seed": row(0, 0)}


def make_stability() -> Stability:
    return Stability(
        num_prompts=30,
        repeats=2,
        unique_outputs=((1, 15), (2, 9), (3, 6)),
        tar_raw=make_rate(30, 30),
        tar_answer=make_rate(30, 30),
        noise_pairs=make_rate(0, 30),
        mean_score=0.8125,
        sampling_se=0.0401,
        rerun_se=0.0,
        pass_all=make_rate(24, 30),
    )


def make_census() -> Census:
    return Census(
        num_steps=960,
        edges=(0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
        counts=(14, 11, 30, 41, 66, 140, 170, 201, 190, 97),
        num_exact_ties=3,
        ties_to_lowest=3,
        drift_median=0.011,
        drift_p95=0.068,
        drift_axis="batch",
        share_within=0.073,
        expected_flips=9.4,
        observed_flips=make_rate(12, 960),
    )


def make_operands(num: int = 64, dtype: str = "bfloat16") -> Operands:
    """Make a dot product whose numbers bfloat16 holds."""
    x = tuple((((i * 37) % 101) - 50) / 16 * (2.0 ** -(i % 9)) for i in range(num))
    w = tuple((((i * 53) % 89) - 30) / 128 * (2.0 ** -(i % 7)) for i in range(num))
    return Operands(name="model.layers.0.mlp.down_proj", x=x, w=w, dtype=dtype)


def make_probe(layers: int = 8, first: int = 3) -> Probe:
    names = (
        "input_layernorm",
        "self_attn.q_proj",
        "self_attn.o_proj",
        "mlp.up_proj",
        "mlp.down_proj",
    )
    places = []
    for layer in range(layers):
        for i, name in enumerate(names):
            place = layer * len(names) + i
            error = 2e-3 * (1 + place) ** 0.6 * (1 + 0.3 * (i % 3))
            is_equal = place < first or (i == 0 and place < 2 * first)
            places.append(
                Place(
                    name=f"model.layers.{layer}.{name}",
                    depth=layer,
                    is_equal=is_equal,
                    error_base=error,
                    error_treated=error if is_equal else error * (1.1 + 0.2 * (place % 2)),
                )
            )
    tie = NearTie(
        prompt="p00",
        step=3,
        tokens=(" blue", " green", "\n"),
        base=(18.375, 18.25, 15.0),
        treated=(18.25, 18.375, 15.0),
    )
    return Probe(
        prompt="p00",
        base="{}",
        treated='{"batch":8}',
        places=tuple(places),
        operands=make_operands(),
        tie=tie,
    )


def make_header() -> dict[str, Any]:
    prompts: list[dict[str, Any]] = [
        {
            "id": key,
            "text": f"Question {key}: why is the sky blue?",
            "messages": None,
            "answer": None,
        }
        for key in PROMPTS
    ]
    prompts[0] |= {"text": None, "messages": [["system", "Be brief."], ["user", "Why?"]]}
    return {
        "format": "samebits/audit/v1",
        "version": "0.1.0",
        "nonce": "00ff",
        "asked": {"target": "hf:SmolLM2-135M-Instruct", "need": "tokens", "max_tokens": 32},
        "target": {
            "kind": "hf",
            "name": "SmolLM2-135M-Instruct",
            "in_force": {"dtype": "bfloat16", "attention": "sdpa", "threads": 2},
            "reports": ["text", "token_ids", "steps", "margins"],
        },
        "machine": {"cpu": "Some CPU", "cores": 2, "libraries": {"numpy": "2.0"}},
        "prompts": prompts,
        "axes": ["repeat", "batch"],
        "started_at": "2025-01-01T00:00:00+00:00",
    }


def make_unstable() -> Analysis:
    """Batch size and KV cache change tokens, attention moves bits; everything is there."""
    return Analysis(
        verdict=Verdict.CHANGES_TOKENS,
        need="tokens",
        exit_code=1,
        header=make_header(),
        axes=make_axes(),
        stability=make_stability(),
        survival=(
            Survival(
                axis="batch", num_pairs=120, tokens=(3, 7, 12, 19), alive=(0.9, 0.8, 0.7, 0.6)
            ),
            Survival(axis="kv-cache", num_pairs=120, tokens=(5, 21), alive=(0.9, 0.77)),
        ),
        census=make_census(),
        probes=(make_probe(),),
        heat=make_heat(),
        positive_control="differs",
        num_observations=1180,
        num_missing=4,
        is_complete=True,
        ended="complete",
        false_discovery_rate=0.05,
        own_s=3.2,
        target_s=412.5,
        record_digest=DIGEST,
    )


def keep(analysis: Analysis, *verdicts: Verdict) -> tuple[AxisResult, ...]:
    return tuple(axis for axis in analysis.axes if axis.verdict in verdicts)


def make_bare(verdict: Verdict, exit_code: int, *verdicts: Verdict) -> Analysis:
    """Make an analysis of a few axes, without what an HTTP target cannot report."""
    whole = make_unstable()
    axes = keep(whole, *verdicts)
    keys = {axis.key for axis in axes}
    return replace(
        whole,
        verdict=verdict,
        exit_code=exit_code,
        axes=axes,
        survival=(),
        census=None,
        probes=(),
        heat={key: row for key, row in whole.heat.items() if key in keys},
        stability=replace(
            whole.stability,
            unique_outputs=((1, 30),),
            tar_answer=None,
            mean_score=None,
            sampling_se=None,
            rerun_se=None,
            pass_all=None,
        ),
        own_s=None,
        target_s=None,
    )


def make_stable() -> Analysis:
    return make_bare(Verdict.NO_EFFECT, 0, Verdict.NO_EFFECT, Verdict.NOT_TESTED)


def make_moving() -> Analysis:
    made = make_bare(Verdict.MOVES_BITS, 0, Verdict.MOVES_BITS, Verdict.NO_EFFECT)
    return replace(made, need="bits", exit_code=1, census=make_census(), probes=(make_probe(),))


def make_unsure() -> Analysis:
    made = make_bare(Verdict.CANNOT_TELL, 3, Verdict.CANNOT_TELL, Verdict.NOT_TESTED)
    return replace(
        made,
        positive_control="not made",
        is_complete=False,
        ended="the user interrupted it",
    )


def make_unexplained() -> Analysis:
    """Repeats differ; seen over HTTP, with tokens alone."""
    made = make_bare(Verdict.NOT_EXPLAINED, 1, Verdict.NO_EFFECT, Verdict.NOT_TESTED)
    noisy = make_axis(
        "repeat",
        Verdict.CHANGES_TOKENS,
        make_level("repeat", "again", Verdict.CHANGES_TOKENS, tokens=5, bits=None, base=5),
    )
    blind = tuple(
        replace(
            axis,
            levels=tuple(
                replace(
                    level,
                    comparisons={k: v for k, v in level.comparisons.items() if k != "bits"},
                )
                for level in axis.levels
            ),
        )
        for axis in made.axes
        if axis.key != "repeat"
    )
    header = make_header() | {"target": {"kind": "http", "name": "some-model", "in_force": {}}}
    heat = dict(made.heat) | {"repeat": dict.fromkeys(PROMPTS[:5], "tokens")}
    return replace(made, axes=(noisy, *blind), header=header, heat=heat, positive_control="same")


def make_untested() -> Analysis:
    made = make_bare(Verdict.NOT_TESTED, 3, Verdict.NOT_TESTED)
    stability = replace(
        made.stability, num_prompts=0, repeats=0, unique_outputs=(), tar_raw=make_rate(0, 0)
    )
    return replace(made, stability=stability, num_observations=0, num_missing=0)


def make_hostile() -> Analysis:
    """Every text that a record may hold is an attack."""
    whole = make_unstable()
    level = make_level("batch", HOSTILE, Verdict.CHANGES_TOKENS, tokens=3, only_if=HOSTILE)
    level = replace(level, affected=(HOSTILE,))
    axis = make_axis(
        "batch", Verdict.CHANGES_TOKENS, level, reason=HOSTILE, notes=(HOSTILE,),
        threshold=(HOSTILE, HOSTILE),
    )  # fmt: skip
    unknown = make_axis(HOSTILE, Verdict.NOT_TESTED, reason=HOSTILE)
    probe = make_probe()
    tie = probe.tie
    assert tie is not None
    header = make_header()
    header["asked"] = {"target": HOSTILE, HOSTILE: HOSTILE}
    header["target"] = {"kind": "hf", "name": HOSTILE, "in_force": {HOSTILE: [HOSTILE]}}
    header["prompts"] = [{"id": HOSTILE, "text": HOSTILE + "x" * 10_000}]
    return replace(
        whole,
        header=header,
        axes=(axis, unknown),
        is_complete=False,
        ended=HOSTILE,
        heat={"batch": {HOSTILE: "tokens"}},
        survival=(replace(whole.survival[0], axis=HOSTILE),),
        census=replace(make_census(), drift_axis=HOSTILE),
        probes=(
            replace(
                probe,
                prompt=HOSTILE,
                base=HOSTILE,
                treated=HOSTILE,
                places=tuple(replace(place, name=HOSTILE) for place in probe.places),
                operands=replace(make_operands(), name=HOSTILE, dtype=HOSTILE),
                tie=replace(tie, prompt=HOSTILE, tokens=(HOSTILE, "a", "b")),
            ),
        ),
        record_digest=HOSTILE,
    )


def make_large() -> Analysis:
    """200 prompts, 40 contrasts, 300 places."""
    whole = make_unstable()
    prompts = tuple(f"prompt-{i:03d}" for i in range(200))
    axes = tuple(
        make_axis(
            f"{key}-{i}",
            Verdict.CHANGES_TOKENS,
            *(make_level(key, str(n), Verdict.CHANGES_TOKENS, tokens=90, of=200) for n in (2, 8)),
        )
        for i in range(5)
        for key in ("batch", "padding", "chunk", "threads")
    )
    states = ("same", "bits", "tokens", "missing")
    heat = {
        axis.key: {p: states[(i * j) % 7 % 4] for i, p in enumerate(prompts)}
        for j, axis in enumerate(axes)
    }
    probes = tuple(make_probe(layers=60, first=9) for _ in range(10))
    curve = Survival(
        axis="batch",
        num_pairs=800,
        tokens=tuple(range(200)),
        alive=tuple(1 - i / 400 for i in range(1, 201)),
    )
    return replace(
        whole, axes=axes, heat=heat, probes=probes, survival=(curve,) * 8, num_observations=10_000
    )


SAMPLES = {
    "unstable": make_unstable,
    "stable": make_stable,
    "moving": make_moving,
    "unsure": make_unsure,
    "unexplained": make_unexplained,
    "untested": make_untested,
    "hostile": make_hostile,
    "large": make_large,
}
"""By name."""
