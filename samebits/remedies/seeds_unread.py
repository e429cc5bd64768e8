"""Seeds that nobody reads: options with a name like a seed's that an engine does not know.

A seed in the wrong field looks like a seed that works, and the answers still differ.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

SEED_LIKE = re.compile(
    r"(?:.*[_.-])?(?:seed|seeds|rng|rng_?state|random_?state|generator|prng_?key)"
    r"|(?:rng|random|manual|data|sampling|global|torch|numpy|np)_?seed|seed_.*",
    re.ASCII | re.IGNORECASE,
)
"""Names that people expect to be a seed, whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedName:
    """Where an engine reads a seed."""

    engine: str
    place: str
    """request, server or call."""
    name: str
    """Empty: there is none."""
    remark: str
    source: str


SEED_NAMES = (
    SeedName(
        engine="pytorch",
        place="call",
        name="",
        remark="generate() of transformers takes no seed: call samebits.seed_everything or "
        "torch.manual_seed right before it",
        source="https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/"
        "generation/utils.py",
    ),
    SeedName(
        engine="vllm",
        place="request",
        name="seed",
        remark="SamplingParams.seed, or seed in the body; -1 counts as none",
        source="https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/sampling_params.py",
    ),
    SeedName(
        engine="vllm",
        place="server",
        name="seed",
        remark="--seed; 0 if not given",
        source="https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/config/model.py",
    ),
    SeedName(
        engine="sglang",
        place="request",
        name="sampling_seed",
        remark="in sampling_params of /generate, with --enable-deterministic-inference; seed on "
        "the OpenAI endpoints was reported to do nothing (sgl-project/sglang issue 15481)",
        source="https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/sampling/"
        "sampling_params.py",
    ),
    SeedName(
        engine="sglang",
        place="server",
        name="random_seed",
        remark="--random-seed",
        source="https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/server_args.py",
    ),
    SeedName(
        engine="tensorrt-llm",
        place="request",
        name="seed",
        remark="SamplingParams.seed; 0 if not given",
        source="https://github.com/NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/sampling_params.py",
    ),
    SeedName(
        engine="llama.cpp",
        place="request",
        name="seed",
        remark="in the body; -1, the default, is random",
        source="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
    ),
    SeedName(
        engine="llama.cpp",
        place="server",
        name="seed",
        remark="--seed or -s; -1, the default, is random",
        source="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
    ),
    SeedName(
        engine="openai",
        place="request",
        name="seed",
        remark="best effort: no promise, and system_fingerprint may change",
        source="https://github.com/openai/openai-python/blob/main/src/openai/types/chat/"
        "completion_create_params.py",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadSeed:
    """An option that looks like a seed and is not read as one."""

    path: str
    """Its name, with those of the options that it lies in: rollout.sampling.seed."""
    value: str
    instead: str
    """What is read instead, or what to do; empty if nothing is known."""


def find_unread_seeds(
    options: Mapping[str, object], read: Collection[str], *, instead: str = ""
) -> tuple[UnreadSeed, ...]:
    """Find options with a seed's name, at any depth, that are not among those read.

    Args:
        options: May hold mappings and lists of them. Hyphens and underscores are one.
        read: Names that somebody reads: a last name (seed), or a whole path (rollout.seed).
        instead: What to say to each that is found.
    """
    known = {normalise(name) for name in read}
    return tuple(
        UnreadSeed(path=path, value=spell(value), instead=instead)
        for path, value in walk(options)
        if is_seed_like(path) and not known & {normalise(path), last_name(path)}
    )


def list_seeds(engine: str) -> tuple[SeedName, ...]:
    """List where an engine reads a seed, as far as it is known."""
    return tuple(row for row in SEED_NAMES if row.engine == engine)


def check_seeds(options: Mapping[str, object], engine: str, place: str) -> tuple[UnreadSeed, ...]:
    """Find the seeds among options that an engine does not read there, and say what it does.

    An engine of which no name is known gets no warning.
    """
    rows = [row for row in list_seeds(engine) if row.place == place]
    if not rows:
        return ()
    read = [row.name for row in rows if row.name]
    advice = "; ".join(f"{row.name}: {row.remark}" if row.name else row.remark for row in rows)
    return find_unread_seeds(options, read, instead=advice)


def walk(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """List what lies in mappings and lists that is neither, each with its path."""
    if isinstance(value, Mapping):
        parts = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple) and any(isinstance(x, Mapping) for x in value):
        parts = [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    else:
        yield path, value
        return
    for name, item in parts:
        yield from walk(item, name)


def is_seed_like(path: str) -> bool:
    """Answer whether the last name of a path looks like a seed's."""
    return SEED_LIKE.fullmatch(last_name(path)) is not None


def last_name(path: str) -> str:
    """Give the last name of a path."""
    return normalise(path.rpartition(".")[2])


def normalise(name: str) -> str:
    """Spell a name with underscores, without leading hyphens, in small letters."""
    return name.lstrip("-").replace("-", "_").casefold()


def spell(value: object) -> str:
    """Spell a value briefly: numbers as they are, of all else only the type."""
    is_plain = value is None or isinstance(value, bool | int | float)
    is_number = isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value, re.ASCII)
    return str(value) if is_plain or is_number else type(value).__name__
