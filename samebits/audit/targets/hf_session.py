"""A session on a transformers model in this process. Runs in the worker only."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import torch
from jinja2 import TemplateError
from torch import Tensor

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt, as_messages
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.hf import HfSettings
from samebits.audit.targets.hf_generate import (
    Batch,
    Step,
    generate,
    make_choose,
)
from samebits.audit.targets.hf_load import Loaded, load
from samebits.audit.targets.hf_rows import Ids, make_rows
from samebits.errors import RequestError, UnsupportedInput
from samebits.model.template import ChatTemplate
from samebits.remedies.bits import digest_bits


def open_session(settings: Mapping[str, Any], process: Process) -> "HfSession":
    """Load a model for one process.

    Raises:
        ConfigError: There is no such folder, or a setting is impossible.
        ModelFileError: transformers cannot load it.
    """
    return HfSession(load(HfSettings(**settings), process))


@dataclass(slots=True)
class Seen:
    """What was read off the steps of one row."""

    tokens: list[int] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    seconds: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def add(self, logits: Tensor, token: int) -> None:
        """Read one step: logits (V,) and the token that followed.

        Raises:
            UnsupportedInput: A logit that counts is not finite, which no record could keep.
        """
        best = logits.double().topk(2)
        self.tokens.append(token)
        self.steps.append(digest_bits(logits))
        self.margins.append(float(best.values[0] - best.values[1]))
        first, second = best.indices.tolist()
        self.seconds.append(first if token == second else second)
        self.logprobs.append(float(logits.float().log_softmax(dim=-1)[token]))
        if not (math.isfinite(self.margins[-1]) and math.isfinite(self.logprobs[-1])):
            raise UnsupportedInput(expected="finite logits", found="infinite ones, or NaN")

    def fields(self) -> dict[str, Any]:
        """Give the fields of an answer."""
        return {
            "token_ids": tuple(self.tokens),
            "steps": tuple(self.steps),
            "margins": tuple(self.margins),
            "seconds": tuple(self.seconds),
            "logprobs": tuple(self.logprobs),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A prompt as text and as tokens."""

    text: str
    ids: Ids


class HfSession:
    """One loaded model; every call stands alone, since nothing is kept between calls."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.companions: Sequence[AuditPrompt] = ()

    @property
    def facts(self) -> TargetFacts:
        """What was found on loading."""
        return self.loaded.facts

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer each prompt in order."""
        self.companions = ask.companions
        for prompt in ask.prompts:
            start = time.perf_counter()
            answer, error = self.try_answer(ask, prompt)
            elapsed_s = time.perf_counter() - start
            yield Answer(**answer, error=error, elapsed_s=elapsed_s)

    def try_answer(self, ask: Ask, prompt: AuditPrompt) -> tuple[dict[str, Any], str | None]:
        """Answer, or say why there is no answer."""
        try:
            with torch.inference_mode():
                return self.answer(ask, prompt), None
        except (UnsupportedInput, RequestError) as error:
            return {}, str(error)
        except (RuntimeError, MemoryError) as error:  # How torch reports that memory ran out.
            return {}, f"{type(error).__name__}: {error}"

    def answer(self, ask: Ask, prompt: AuditPrompt) -> dict[str, Any]:
        """Give the fields of an answer."""
        encoded = self.encode(prompt, ask.call.clock)
        self.check_length(encoded, ask.call, ask.max_tokens)
        batch = self.make_batch(ask.call, encoded.ids)
        made = self.score(batch) if ask.call.scoring else self.generate(batch, ask)
        return made | {"prompt_text": encoded.text, "num_prompt_tokens": len(encoded.ids)}

    def encode(self, prompt: AuditPrompt, clock: str | None = None) -> Encoded:
        """Render a prompt and turn it into tokens, as transformers would.

        Where the template is told the time, a text is what a user says in it.

        Raises:
            UnsupportedInput: It has no tokens, or wants a template that is not there.
        """
        tokenizer = self.loaded.tokenizer
        is_raw = prompt.messages is None and clock is None
        text = prompt.text if is_raw else self.render(as_messages(prompt), clock)
        ids = tokenizer(text, add_special_tokens=is_raw).input_ids
        if not ids:
            raise UnsupportedInput(expected="a prompt of at least one token", found="none")
        return Encoded(text=text or "", ids=tuple(ids))

    def render(self, messages: Sequence[Mapping[str, str]], clock: str | None) -> str:
        """Render messages with the model's template, which is told the time if `clock` is given.

        Raises:
            UnsupportedInput: There is no template, or it does not take these messages.
        """
        tokenizer = self.loaded.tokenizer
        if not tokenizer.chat_template:
            raise UnsupportedInput(expected="a model with a chat template", found="none")
        if clock is not None:
            return self.make_template().render(messages, now=datetime.fromisoformat(clock))
        try:
            text = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        except TemplateError as error:
            found = f"{type(error).__name__}: {error}"
            raise UnsupportedInput(expected="messages for the template", found=found) from error
        return str(text)

    def make_template(self) -> ChatTemplate:
        """Compile the model's template for our renderer: transformers' own reads the real clock."""
        tokenizer = self.loaded.tokenizer
        bos, eos = (tokenizer.bos_token or "", tokenizer.eos_token or "")
        return ChatTemplate(tokenizer.get_chat_template(), bos, eos)

    def check_length(self, encoded: Encoded, call: Call, max_tokens: int) -> None:
        """Refuse what does not fit the model's context."""
        limit = getattr(self.loaded.model.config, "max_position_embeddings", None)
        asked = call.padding + len(encoded.ids) + (0 if call.scoring else max_tokens)
        if limit is not None and asked > limit:
            raise UnsupportedInput(expected=f"at most {limit} tokens", found=str(asked))

    def make_batch(self, call: Call, ids: Ids) -> Batch:
        """Lay out the batch of a call."""
        beside = () if call.neighbours == "copies" else self.companions
        others = [self.encode(companion).ids for companion in beside]
        return Batch.of(call, make_rows(ids, call, others), self.loaded.pad_id)

    def generate(self, batch: Batch, ask: Ask) -> dict[str, Any]:
        """Make tokens until the observed row, or all rows if n asks for them, have ended."""
        call, seen = ask.call, Seen()
        reader = batch.open(self.loaded.model)
        rows: list[list[int]] = [[] for _ in batch.rows]
        wanted = set(range(len(rows)) if call.n > 1 else (batch.position,))
        for step in generate(reader, batch.position, make_choose(call), ask.max_tokens):
            if batch.position in wanted:
                seen.add(step.logits, int(step.tokens[batch.position]))
            wanted -= self.extend(rows, step, wanted)
            if not wanted:
                break
        others = [row for place, row in enumerate(rows) if place != batch.position]
        ended = seen.tokens[-1] in self.loaded.stop_ids
        return seen.fields() | {
            "text": self.decode(seen.tokens),
            "others": tuple(self.decode(row) for row in others) if call.n > 1 else (),
            "num_tokens": len(seen.tokens),
            "finish_reason": "stop" if ended else "length",
        }

    def extend(self, rows: list[list[int]], step: Step, wanted: set[int]) -> set[int]:
        """Append a step's tokens to the wanted rows; those that ended."""
        tokens = step.tokens.tolist()
        for place in wanted:
            rows[place].append(tokens[place])
        return {place for place in wanted if tokens[place] in self.loaded.stop_ids}

    def score(self, batch: Batch) -> dict[str, Any]:
        """Score the prompt's own tokens but the first, each by the logits before it."""
        seen, ids = Seen(), batch.rows[batch.position]
        if len(ids) < 2:
            raise UnsupportedInput(expected="two tokens to score", found="one")
        reader = batch.open(self.loaded.model)
        logits = reader.feed(reader.pad(), keep=len(ids))[batch.position]
        for row, token in zip(logits, ids[1:], strict=False):
            seen.add(row, token)
        return seen.fields()

    def decode(self, tokens: Sequence[int]) -> str:
        """Spell tokens as a user would see them."""
        return str(self.loaded.tokenizer.decode(tokens, skip_special_tokens=True))

    def decode_raw(self, token: int) -> str:
        """Spell one token, special or not."""
        return str(self.loaded.tokenizer.decode([token]))

    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe | None:
        """Find where the bits of one prompt part; None if one process cannot show both."""
        # Probing is rare, and its hooks are for it alone.
        from samebits.audit.targets.hf_probe import probe

        # Not inference_mode: what is copied to float64 there could not be changed afterwards.
        with torch.no_grad():
            return probe(self, base, treated, prompt)
