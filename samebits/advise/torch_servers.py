"""What serves requests with transformers, from plain batches to guards. In a worker process only.

Plain batches are what users run: rows of different lengths, padded at the left, read together,
stepped until the last has ended. Remedies that leave the batch as it is are options of that server.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from samebits.advise.servers import Start
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import TargetFacts
from samebits.audit.targets.hf_load import Loaded, load
from samebits.audit.targets.hf_session import HfSession, Seen
from samebits.remedies.batch import Batch, make_rows
from samebits.remedies.choose import Chooser, Greedy
from samebits.remedies.precision import plan, raised
from samebits.remedies.reader import Ids, Layout, Reader
from samebits.remedies.seeds import seed_everything
from samebits.remedies.stabilize import stabilize
from samebits.remedies.stable_answer import StableAnswer


class TransformersServer:
    """Reads prompts and spells answers; how they are made is said below."""

    def __init__(self, start: Start) -> None:
        self.session = HfSession(load(start.model, start.process))
        if start.is_pinned:
            torch.use_deterministic_algorithms(True)

    @property
    def loaded(self) -> Loaded:
        """The model with its settings."""
        return self.session.loaded

    @property
    def facts(self) -> TargetFacts:
        """What is in force, and what could be elsewhere."""
        return self.session.facts

    def encode(self, prompts: Sequence[AuditPrompt]) -> tuple[Ids, ...]:
        """Give the token ids of prompts."""
        return tuple(self.session.encode(prompt).ids for prompt in prompts)

    def make_fields(self, row: Ids, seen: Seen | StableAnswer) -> dict[str, Any]:
        """Give the fields of an answer."""
        tokens = tuple(seen.token_ids if isinstance(seen, StableAnswer) else seen.tokens)
        return {
            "text": self.session.decode(tokens),
            "token_ids": tokens,
            "steps": tuple(seen.steps),
            "margins": tuple(seen.margins),
            "finish_reason": "stop" if tokens[-1] in self.loaded.stop_ids else "length",
            "num_prompt_tokens": len(row),
            "num_tokens": len(tokens),
        }


class BatchServer(TransformersServer):
    """Serves each group as one ragged batch."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        if "seed" in start.options:
            seed_everything(start.options["seed"], torch=True)
        self.plan = plan(self.loaded.model, start.options.get("precision"))
        self.chooser: Chooser = Greedy()

    def counts(self) -> Mapping[str, Any]:
        """Say in which dtype parts compute."""
        return {"precision": dict(self.plan.described)} if self.plan.described else {}

    def serve(self, prompts: Sequence[AuditPrompt], max_tokens: int) -> list[dict[str, Any]]:
        """Answer prompts that came together."""
        rows = self.encode(prompts)
        with torch.no_grad(), raised(self.loaded.model, self.plan):
            seen = self.generate(rows, max_tokens)
        return list(map(self.make_fields, rows, seen))

    def generate(self, rows: tuple[Ids, ...], max_tokens: int) -> list[Seen]:
        """Make tokens for all rows until each has ended."""
        layout = Layout(rows=rows, length=max(map(len, rows)), pad_id=self.loaded.pad_id)
        seen = [Seen() for _ in rows]
        batch = Batch(
            reader=Reader(self.loaded.model, layout),
            rows=dict(enumerate(make_rows(rows))),
            chooser=self.chooser,
            max_tokens=max_tokens,
            stop_ids=self.loaded.stop_ids,
        )
        batch.run(lambda row, logits: seen[row.request].add(logits, row.tokens[-1]))
        return seen


class StableServer(TransformersServer):
    """Serves through samebits.stabilize."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.stable = stabilize(self.loaded.model, shape=start.options["shape"])

    def counts(self) -> Mapping[str, Any]:
        """Say which shape, and which of its rows can be used."""
        facts = self.stable.facts
        return {
            "rows": facts.rows,
            "unusable": {str(key): list(rows) for key, rows in facts.unusable.items()},
        }

    def serve(self, prompts: Sequence[AuditPrompt], max_tokens: int) -> list[dict[str, Any]]:
        """Answer prompts that came together."""
        rows = self.encode(prompts)
        answers = self.stable.generate(
            rows, max_tokens=max_tokens, stop_ids=tuple(self.loaded.stop_ids)
        )
        return list(map(self.make_fields, rows, answers))
