"""Ragged batches behind an output cache. In a worker process only."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from samebits.advise.servers import Start
from samebits.advise.torch_servers import BatchServer
from samebits.audit.prompts import AuditPrompt
from samebits.cache import (
    Admission,
    Answer,
    Ending,
    Identity,
    Outcome,
    OutputCache,
    Refusal,
    Request,
)
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.remedies.reader import Ids

ADMISSION = Admission(allow=frozenset({Refusal.LENGTH}))
"""An advice cuts answers off on purpose."""


class CacheServer(BatchServer):
    """Serves what was asked before from a cache, and the rest as one ragged batch."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.folder = tempfile.TemporaryDirectory(prefix="samebits-advise-")
        self.cache = OutputCache.open(
            Path(self.folder.name) / "answers.sqlite3",
            admission=ADMISSION,
        )
        self.identity = Identity(
            weights=str(self.facts.in_force.get("files", "")),
            tokenizer="of the folder",
            template=None,
            setting={"dtype": str(self.facts.in_force["dtype"])},
        )

    def counts(self) -> Mapping[str, Any]:
        """Say how often the cache had the answer."""
        outcomes = self.cache.tally().outcomes
        return {"hits": outcomes[Outcome.HIT], "misses": outcomes[Outcome.MISS]}

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
