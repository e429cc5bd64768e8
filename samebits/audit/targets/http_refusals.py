"""Why an endpoint cannot be asked under a condition, in words for the report."""

from collections.abc import Callable, Mapping
from typing import Any

from samebits.audit.condition import Call, Process
from samebits.audit.target import TargetFacts

BY_HAND = (
    "the server's process is not ours: start it so by hand, run `samebits audit --record` before "
    "and after, and `samebits compare` the two"
)

Rule = Callable[[Call, Mapping[str, Any], TargetFacts], str]


def refuse_process(process: Process) -> str:
    """Say that a server starts as it starts; empty for the base process."""
    return "" if process == Process() else BY_HAND


def refuse_call(call: Call, facts: TargetFacts) -> str:
    """Give the first reason; empty if there is none."""
    dialect: Mapping[str, Any] = facts.in_force["dialect"]
    return next((reason for rule in _RULES if (reason := rule(call, dialect, facts))), "")


def _refuse_absent(call: Call, _dialect: Mapping[str, Any], _facts: TargetFacts) -> str:
    """Refuse what no request can say."""
    rows = (
        (call.padding, "an endpoint has no field for padding"),
        (call.first, "the first call of a server's process is over when it has been opened"),
        (call.chunk_tokens, "an endpoint has no field for the chunk size"),
        (not call.kv_cache, "an endpoint has no field that turns the KV cache off"),
        (call.clock, "a server's clock cannot be set from outside"),
        (call.pick != "lowest", "an endpoint has no field for the choice among equal logits"),
    )
    return next((reason for is_asked, reason in rows if is_asked is not None and is_asked), "")


def _refuse_batch(call: Call, dialect: Mapping[str, Any], _facts: TargetFacts) -> str:
    if call.batch == 1 and call.position == 0:
        return ""
    if dialect["api"] == "chat":
        return "a chat request holds one conversation; lists of prompts go to completions"
    if not dialect["takes_lists"]:
        return "the server takes no list of prompts in one request"
    if not 0 <= call.position < call.batch:
        return f"there is no row {call.position} in a list of {call.batch}"
    if call.neighbour_seed is not None:
        return "the prompts of one request share one seed"
    return ""


def _refuse_concurrency(call: Call, _dialect: Mapping[str, Any], facts: TargetFacts) -> str:
    most = facts.max_concurrency
    return f"more than {most} requests at once were not allowed" if call.concurrency > most else ""


def _refuse_sampling(call: Call, dialect: Mapping[str, Any], _facts: TargetFacts) -> str:
    if call.temperature and not dialect["takes_temperature"]:
        return "the server refuses a temperature"
    is_seeded = call.seed != "absent" or call.neighbour_seed is not None
    if is_seeded and not dialect["takes_seed"]:
        return "the server refuses a seed"
    if call.n > 1:
        return str(dialect["n_sampled" if call.temperature else "n_greedy"])
    return ""


def _refuse_reports(call: Call, dialect: Mapping[str, Any], _facts: TargetFacts) -> str:
    if call.logprobs is not None and call.logprobs > dialect["max_logprobs"]:
        return f"the server reports at most {dialect['max_logprobs']} log-probabilities a token"
    if call.stream and not dialect["takes_stream"]:
        return "the server does not stream"
    if call.scoring and (dialect["echo_tokens"] is None or call.stream):
        return "the server does not report log-probabilities of the prompt"
    return ""


_RULES: tuple[Rule, ...] = (
    _refuse_absent,
    _refuse_batch,
    _refuse_concurrency,
    _refuse_sampling,
    _refuse_reports,
)
