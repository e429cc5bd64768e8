"""What serves requests with transformers, from plain batches to guards. In a worker process only.

Plain batches are what users run: rows of different lengths, padded at the left, read together,
stepped until the last has ended. Remedies that leave the batch as it is are options of that server.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from samebits.advise.servers import KV_TOKENS, Server, Start
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import TargetFacts
from samebits.audit.targets.hf_load import Loaded, load
from samebits.audit.targets.hf_session import HfSession, Seen
from samebits.cache.admission import Admission, Refusal
from samebits.cache.answer import Answer, Ending
from samebits.cache.key import Identity, Request
from samebits.cache.output_cache import OutputCache
from samebits.engine import Engine
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.remedies.choose import Chooser, Greedy, RowState
from samebits.remedies.guard.actions import Action, Escalate, LowestId, Oracle, Priority
from samebits.remedies.guard.engine_oracle import AskEngine
from samebits.remedies.guard.guard import Guard
from samebits.remedies.guard.measure import Shape, calibrate
from samebits.remedies.guard.oracles import RecomputeAlone, RecomputePrecise
from samebits.remedies.guard.rows import GuardChooser
from samebits.remedies.precision import plan, raised
from samebits.remedies.reader import Ids, Layout, Reader
from samebits.remedies.seeds import seed_everything
from samebits.remedies.stabilize import stabilize
from samebits.remedies.stable_answer import StableAnswer

CALIBRATED_PROMPTS = 8
CALIBRATED_TOKENS = 8
CALIBRATED_SHAPES = (Shape(), Shape(padding=7), Shape(num_rows=8))


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
        longest = max(len(row) for row in rows)
        reader = Reader(
            self.loaded.model, Layout(rows=rows, length=longest, pad_id=self.loaded.pad_id)
        )
        seen = [Seen() for _ in rows]
        logits = reader.read_prompt()
        for count in range(1, max_tokens + 1):
            for place, row in enumerate(rows):
                if not self.has_ended(seen[place]):
                    self.step(reader, place, row, logits[place], seen[place])
            if count == max_tokens or all(map(self.has_ended, seen)):
                break
            logits = reader.feed(torch.tensor([[each.tokens[-1]] for each in seen]))
        return seen

    def step(self, reader: Reader, place: int, row: Ids, logits: Tensor, seen: Seen) -> None:
        """Choose a row's next token, and repair its cache where the chooser says so."""
        state = RowState(
            logits=logits,
            ids=(*row, *seen.tokens),
            num_prompt_tokens=len(row),
            request=place,
        )
        choice = self.chooser.choose(state)
        if choice.keys_values is not None:
            reader.write_keys_values(place, choice.keys_values)
        seen.add(logits, choice.token)

    def has_ended(self, seen: Seen) -> bool:
        """Answer whether a row's last token ends it."""
        return bool(seen.tokens) and seen.tokens[-1] in self.loaded.stop_ids


class GuardServer(BatchServer):
    """Serves ragged batches under a guard, calibrated at the start on other prompts."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        texts = [AuditPrompt(id="c", text=text) for text in start.companions[:CALIBRATED_PROMPTS]]
        oracle, action = self.make_action(start)
        calibration = calibrate(
            self.loaded.model,
            self.encode(texts),
            oracle,
            shapes=CALIBRATED_SHAPES,
            max_tokens=CALIBRATED_TOKENS,
        )
        self.guard = Guard(epsilon=calibration.epsilon, action=action, calibration=calibration)
        self.guarding = GuardChooser(self.guard)
        self.chooser = self.guarding

    def make_action(self, start: Start) -> tuple[Oracle, Action]:
        """Make what decides near-ties, and the oracle that drift is measured from."""
        model = self.loaded.model
        if start.options["action"] == "sb1":
            engine = Engine.load(start.model.path, threads=start.model.threads, kv_tokens=KV_TOKENS)
            asked = AskEngine(engine, start.model.path)
            return asked, Escalate(asked)
        if start.options["action"] == "precise":
            precise = RecomputePrecise(model)
            return precise, Escalate(precise)
        alone = RecomputeAlone(model)
        actions: Mapping[str, Action] = {
            "lowest": LowestId(),
            # The list that suits any prompt: to end comes first.
            "priority": Priority(tuple(sorted(self.loaded.stop_ids))),
            "alone": Escalate(alone),
        }
        return alone, actions[start.options["action"]]

    def counts(self) -> Mapping[str, Any]:
        """Say what the guard did."""
        sums = self.guarding.tally.counts()
        return {
            "epsilon": self.guard.epsilon,
            "calibration": str(self.guard.calibration),
            "steps": sums.steps,
            "fired": sums.fired,
            "changed": sums.changed,
            "outside": sums.outside,
            "largest_drift": sums.largest_drift,
        }


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


class CacheServer(BatchServer):
    """Serves what was asked before from a cache, and the rest as one ragged batch."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.folder = tempfile.TemporaryDirectory(prefix="samebits-advise-")
        self.cache = OutputCache.open(
            Path(self.folder.name) / "answers.sqlite3",
            admission=Admission(allow=frozenset({Refusal.LENGTH})),
        )
        self.identity = Identity(
            weights=str(self.facts.in_force.get("files", "")),
            tokenizer="of the folder",
            template=None,
            setting={"dtype": str(self.facts.in_force["dtype"])},
        )

    def counts(self) -> Mapping[str, Any]:
        """Say how often the cache had the answer."""
        return {"cache": self.cache.counts.value()}

    def serve(self, prompts: Sequence[AuditPrompt], max_tokens: int) -> list[dict[str, Any]]:
        """Answer prompts that came together."""
        requests = [self.make_request(ids, max_tokens) for ids in self.encode(prompts)]

        def compute(places: Sequence[int]) -> Iterator[tuple[int, Answer]]:
            made = super(CacheServer, self).serve([prompts[place] for place in places], max_tokens)
            for place, fields in zip(places, made, strict=True):
                ending = Ending(finish_reasons=(fields["finish_reason"],))
                yield place, Answer(body=canonical_bytes(fields), ending=ending)

        return [read_fields(found.answer) for found in self.cache.fetch_all(requests, compute)]

    def make_request(self, ids: Ids, max_tokens: int) -> Request:
        """Make the request that the cache knows."""
        body = {"prompt_ids": list(ids), "temperature": 0, "max_tokens": max_tokens}
        return Request(surface="samebits/advise/v1", body=body, identity=self.identity)


def read_fields(answer: Answer) -> dict[str, Any]:
    """Read the fields of an answer back."""
    fields: dict[str, Any] = parse_json(answer.body)
    return fields | {name: tuple(fields[name]) for name in ("token_ids", "steps", "margins")}


TORCH_SERVERS: Mapping[str, Callable[[Start], Server]] = {
    "batch": BatchServer,
    "guard": GuardServer,
    "stable": StableServer,
    "cache": CacheServer,
}
"""By the name that rungs have for it."""
