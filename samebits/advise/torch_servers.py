"""What serves requests with transformers, from plain batches to guards. In a worker process only.

Plain batches are what users run: rows of different lengths, padded at the left, read together,
stepped until the last has ended.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from samebits.advise.servers import Server, Start
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import TargetFacts
from samebits.audit.targets.hf_load import load
from samebits.audit.targets.hf_session import HfSession, Seen
from samebits.remedies.choose import lowest_greatest
from samebits.remedies.reader import Ids, Layout, Reader


class BatchServer:
    """Serves each group as one ragged batch."""

    def __init__(self, start: Start) -> None:
        self.session = HfSession(load(start.model, start.process))
        self.loaded = self.session.loaded

    @property
    def facts(self) -> TargetFacts:
        """What is in force, and what could be elsewhere."""
        return self.session.facts

    def counts(self) -> Mapping[str, Any]:
        """Count nothing."""
        return {}

    def serve(self, prompts: Sequence[AuditPrompt], max_tokens: int) -> list[dict[str, Any]]:
        """Answer prompts that came together."""
        rows = tuple(self.session.encode(prompt).ids for prompt in prompts)
        with torch.inference_mode():
            seen = self.generate(rows, max_tokens)
        return [self.make_fields(row, each) for row, each in zip(rows, seen, strict=True)]

    def generate(self, rows: tuple[Ids, ...], max_tokens: int) -> list[Seen]:
        """Make tokens for all rows until each has ended."""
        longest = max(len(row) for row in rows)
        layout = Layout(rows=rows, length=longest, pad_id=self.loaded.pad_id)
        reader = Reader(self.loaded.model, layout)
        seen = [Seen() for _ in rows]
        logits = reader.read_prompt()
        for count in range(1, max_tokens + 1):
            tokens = [lowest_greatest(row) for row in logits]
            self.note(seen, logits, tokens)
            if count == max_tokens or all(self.has_ended(each) for each in seen):
                break
            logits = reader.feed(torch.tensor(tokens)[:, None])
        return seen

    def note(self, seen: Sequence[Seen], logits: Tensor, tokens: Sequence[int]) -> None:
        """Keep a step of the rows that have not ended."""
        for each, row, token in zip(seen, logits, tokens, strict=True):
            if not self.has_ended(each):
                each.add(row, token)

    def has_ended(self, seen: Seen) -> bool:
        """Answer whether a row's last token ends it."""
        return bool(seen.tokens) and seen.tokens[-1] in self.loaded.stop_ids

    def make_fields(self, row: Ids, seen: Seen) -> dict[str, Any]:
        """Give the fields of an answer."""
        return {
            "text": self.session.decode(seen.tokens),
            "token_ids": tuple(seen.tokens),
            "steps": tuple(seen.steps),
            "margins": tuple(seen.margins),
            "finish_reason": "stop" if self.has_ended(seen) else "length",
            "num_prompt_tokens": len(row),
            "num_tokens": len(seen.tokens),
        }


TORCH_SERVERS: Mapping[str, Callable[[Start], Server]] = {"batch": BatchServer}
"""By the name that rungs have for it."""
