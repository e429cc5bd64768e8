"""What transformers models can be asked for: settings, and what cannot be brought about.

Imports neither torch nor transformers: those live in the worker, in hf_session.py.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.target import TargetFacts
from samebits.errors import ConfigError

DTYPES = ("float32", "bfloat16", "float16", "float64")
ATTENTIONS = ("sdpa", "eager")


@dataclass(frozen=True, slots=True, kw_only=True)
class HfSettings:
    """What every session of a target starts from."""

    path: str
    """Folder of the model and its tokenizer, as asked for."""
    name: str = ""
    """What the model is called in the record; empty: its path."""
    dtype: str | None = None
    """None: what the folder's configuration names."""
    attention: str = "sdpa"
    threads: int | None = None
    """None: as many as torch takes by itself."""
    compile: bool = False
    """Whether the compile axis may be tried; it takes minutes."""
    ignore_eos: bool = False

    def value(self) -> dict[str, Any]:
        """Give the settings as plain values."""
        return asdict(self)


def check_folder(path: str) -> Path:
    """Refuse what is not a folder of a model, before transformers asks the network for it."""
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise ConfigError(
            expected="a folder with config.json, weights and a tokenizer",
            found=path,
            remedy="hf: takes a folder in Hugging Face's layout, not a name or a GGUF file.",
        )
    return folder


Refusal = tuple[Callable[[Call], object], str]
"""What is true of a call that cannot be, and the reason."""

CALLS: tuple[Refusal, ...] = (
    (
        lambda call: call.concurrency > 1 or call.stagger_ms > 0,
        "a model in this process serves one call at a time; its company is the batch",
    ),
    (lambda call: call.stream, "every token is read as it is made; there is no stream to turn on"),
    (
        lambda call: call.logprobs is not None,
        "logits are read directly; no log-probabilities are asked for",
    ),
    (
        lambda call: call.neighbour_seed is not None,
        "transformers draws a whole batch from one generator: a neighbour has no seed of its own",
    ),
    (lambda call: call.n > 1 and call.batch > 1, "samples of one prompt are its batch"),
    (lambda call: call.position >= max(call.batch, call.n), "the batch has no such row"),
    (
        lambda call: not call.kv_cache and (call.chunk_tokens or call.prefix == "warm"),
        "without a cache a prompt has no parts",
    ),
    (
        lambda call: call.scoring and (call.n > 1 or call.temperature > 0 or not call.kv_cache),
        "scoring reads the prompt once and makes nothing",
    ),
    (
        lambda call: call.scoring and (call.chunk_tokens or call.prefix == "warm"),
        "scoring reads the prompt in one pass",
    ),
)
"""What no call can be."""


def refuse(condition: Condition, facts: TargetFacts) -> str:
    """Say why a condition cannot be brought about; empty if it can."""
    for is_refused, reason in CALLS:
        if is_refused(condition.call):
            return reason
    if condition.call.clock is not None and not facts.in_force.get("chat_template"):
        return "no template is used, hence no clock"
    return refuse_process(condition.process, facts)


def refuse_process(process: Process, facts: TargetFacts) -> str:
    """Say why a process cannot be set up; empty if it can."""
    offers = (
        ("instruction set", process.isa, facts.isas),
        ("dtype", process.dtype, (*facts.dtypes, *DTYPES)),
        ("attention", process.attention, (*facts.attentions, *ATTENTIONS)),
    )
    for name, value, known in offers:
        if value is not None and value not in known:
            return f"{name} {value} cannot be had here"
    if process.compile and not facts.can_compile:
        return str(facts.in_force.get("no_compile", "torch.compile cannot be had here"))
    return ""


def list_variables(process: Process) -> tuple[tuple[str, str], ...]:
    """List the environment variables of a process; torch's level is one of them."""
    level = {"ATEN_CPU_CAPABILITY": process.isa} if process.isa else {}
    return tuple(sorted((dict(process.variables) | level).items()))
