"""From a reply to an answer: bits, margins and runners-up of each step."""

import hashlib
import math
from dataclasses import replace
from typing import Any

from samebits.audit.condition import Call
from samebits.audit.observation import Answer
from samebits.audit.targets.http_reply import Choice, Reply, read_id
from samebits.audit.targets.http_wire import NoAnswer, Number
from samebits.record.digest import STEP_DIGITS


def make_answer(reply: Reply, call: Call, *, echo_tokens: int | None, elapsed_s: float) -> Answer:
    """Give the answer of the observed row.

    Args:
        echo_tokens: If the prompt was scored, tokens generated after it; they are left out.

    Raises:
        NoAnswer: The reply lacks an output that was asked for.
    """
    first = call.position * call.n
    wanted = range(first, first + call.n)
    missing = [index for index in wanted if index not in reply.choices]
    if missing or len(reply.choices) != call.batch * call.n:
        raise NoAnswer(
            expected=f"{call.batch * call.n} choices", found=f"{sorted(reply.choices)[:40]}"
        )
    choice = reply.choices[first]
    if call.scoring:
        choice = _keep_prompt(choice, echo_tokens or 0)
    is_alone = call.batch * call.n == 1 and not call.scoring
    prompt_len = None if choice.prompt_ids is None else len(choice.prompt_ids)
    if prompt_len is None and call.batch == 1:
        prompt_len = reply.num_prompt_tokens
    num_ids = None if choice.token_ids is None else len(choice.token_ids)
    return Answer(
        text=choice.text,
        token_ids=choice.token_ids,
        tokens=choice.tokens,
        finish_reason=choice.finish_reason,
        others=tuple(reply.choices[index].text for index in wanted[1:]),
        num_prompt_tokens=prompt_len,
        num_tokens=reply.num_tokens if is_alone else num_ids,
        fingerprint=reply.fingerprint,
        elapsed_s=elapsed_s,
        **_read_steps(choice),
    )


def _keep_prompt(choice: Choice, num_generated: int) -> Choice:
    """Keep the steps of a scored prompt; its first token has no log-probability."""
    logprobs = choice.logprobs
    stop = None if logprobs is None else len(logprobs) - num_generated
    if logprobs is None or logprobs[0] is not None or stop is None or stop < 1:
        raise NoAnswer(expected="log-probabilities of the prompt", found="none")
    kept = slice(1, stop)
    return replace(
        choice,
        text="",
        token_ids=None if choice.token_ids is None else choice.token_ids[kept],
        tokens=None if choice.tokens is None else choice.tokens[kept],
        logprobs=logprobs[kept],
        tops=None if choice.tops is None else choice.tops[kept],
    )


def _read_steps(choice: Choice) -> dict[str, Any]:
    """Give steps, logprobs, margins and seconds, each whole or None."""
    values = choice.logprobs
    if values is None or any(value is None for value in values):
        return {}
    told = [value for value in values if value is not None]
    found: dict[str, Any] = {"steps": tuple(map(digest_number, told))}
    # Records hold no infinity and no NaN; the steps still tell them apart.
    if all(map(math.isfinite, told)):
        found["logprobs"] = tuple(map(float, told))
    tops = choice.tops
    if tops is None or any(len(top) < 2 or not _is_finite(top) for top in tops):
        return found
    ids = choice.token_ids or (None,) * len(tops)
    names = choice.tokens or (None,) * len(tops)
    chosen = [f"token_id:{i}" if name is None else name for i, name in zip(ids, names, strict=True)]
    found["margins"] = tuple(float(top[0][1]) - float(top[1][1]) for top in tops)
    found["seconds"] = tuple(_pick_second(t, c) for t, c in zip(tops, chosen, strict=True))
    return found


def _is_finite(top: tuple[tuple[str, float], ...]) -> bool:
    return all(math.isfinite(value) for _, value in top[:2])


def _pick_second(top: tuple[tuple[str, float], ...], chosen: str) -> int | str:
    """Name the second best; of two equal ones, that which was not chosen."""
    is_tie = top[0][1] == top[1][1]
    name = top[0][0] if is_tie and top[1][0] == chosen else top[1][0]
    place = read_id(name)
    return name if place is None else place


def digest_number(value: float) -> str:
    """Digest the spelling of a number as it stood in the JSON."""
    spelling = value.spelling if isinstance(value, Number) else str(value)
    return hashlib.sha256(spelling.encode()).hexdigest()[:STEP_DIGITS]
