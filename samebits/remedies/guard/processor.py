"""The guard as a logits processor of transformers' own generate, under greedy search.

A processor is handed scores, and cannot know what has touched them. So it watches the model: it
keeps the logits of the last pass, and refuses scores that are not those, bit by bit.
"""

from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor

from samebits.errors import ConfigError
from samebits.remedies.batch import list_stop_ids
from samebits.remedies.guard.actions import Entries
from samebits.remedies.guard.guard import Guard
from samebits.remedies.guard.oracles import check_evaluating, to_numpy
from samebits.remedies.guard.tally import Tally
from samebits.remedies.reader import write_last

REMEDY = "Run generate with do_sample=False and num_beams=1, and no other processor or penalty."


class GuardProcessor(LogitsProcessor):
    """Decide each row's near-ties, and repair its cache entries where the oracle has them.

    Give it to `model.generate(..., logits_processor=[processor])`; one after another may use it.
    Sampling that an argument of `generate` turns on cannot be seen from here: the token is forced
    all the same. Rows that a stopping criterion other than an end-of-sequence token has ended are
    still decided and counted.

    Attributes:
        guard: The guard. tally: What it did; rows are those of the batch.
    """

    def __init__(self, model: Any, guard: Guard) -> None:
        """Watch a model until `close`, or the end of a `with` block.

        Raises:
            ConfigError: Training mode, or the model's generation configuration samples.
        """
        check_evaluating(model)
        if model.generation_config.do_sample:
            raise ConfigError(
                expected="greedy search",
                found="do_sample in the model's generation configuration",
                remedy="Set model.generation_config.do_sample = False.",
            )
        self.model = model
        self.guard = guard
        self.tally = Tally(guard.epsilon)
        self.stop_ids = list_stop_ids(model)
        self.seen: Seen | None = None
        self.is_asking = False
        self.expected: Tensor | None = None
        self.num_prompt_tokens = 0
        self.watch = model.register_forward_hook(self.keep, with_kwargs=True)

    def keep(self, _model: Any, _args: Any, named: dict[str, Any], output: Any) -> None:
        """Keep what the model gave; an oracle's own passes are not looked at."""
        if not self.is_asking:
            mask, ids = named.get("attention_mask"), named.get("input_ids")
            # The older name, where there is a newer one, makes transformers warn.
            name = "cache" if "cache" in output else "past_key_values"
            cache = output.get(name)
            is_prompt = cache is not None and ids is not None and ids.shape[1] > 1
            self.seen = Seen(output.logits[:, -1], mask, cache, is_prompt)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Leave each live row one token (B, V).

        Raises:
            ConfigError: The scores are not the model's raw logits, or the padding is not at the
                left.
            UnsupportedInput: Logits that are not finite.
        """
        seen = self.check(scores)
        # What was given back may be the next prompt, unchanged: then the pass itself tells.
        if seen.is_prompt or not self.goes_on(input_ids):
            self.num_prompt_tokens = input_ids.shape[1]
        ends = torch.tensor(sorted(self.stop_ids), device=input_ids.device, dtype=input_ids.dtype)
        is_over = torch.isin(input_ids[:, self.num_prompt_tokens :], ends).any(dim=1)
        forced = scores.clone()
        for row in (~is_over).nonzero()[:, 0].tolist():
            token = self.decide(row, input_ids[row], seen)
            forced[row] = float("-inf")
            forced[row, token] = 0
        self.expected = torch.cat((input_ids, forced.argmax(dim=1)[:, None]), dim=1)
        self.expected[is_over, -1] = -1
        return forced

    def check(self, scores: Tensor) -> "Seen":
        """Refuse scores that are not the raw logits of the last pass.

        Raises:
            ConfigError: They are not.
        """
        seen, self.seen = self.seen, None
        if seen is None:
            raise ConfigError(
                expected="a pass of the guarded model before each step",
                found="none that could be watched",
                remedy="Guard the model that generates; a compiled one cannot be watched.",
            )
        if seen.logits.shape != scores.shape or not torch.equal(seen.logits.to(scores), scores):
            raise ConfigError(
                expected="the model's raw logits, one row a sequence",
                found="scores that something changed before",
                remedy=REMEDY,
            )
        return seen

    def goes_on(self, input_ids: Tensor) -> bool:
        """Answer whether a call only goes on; tokens of rows that had ended are not compared."""
        if self.expected is None or self.expected.shape != input_ids.shape:
            return False
        return bool(((self.expected == input_ids) | (self.expected == -1)).all())

    def decide(self, row: int, input_ids: Tensor, seen: "Seen") -> int:
        """Decide a row (T,), repair its entries, count it."""
        padding = seen.count_padding(row)
        self.is_asking = True
        try:
            decision = self.guard.decide(to_numpy(seen.logits[row]), input_ids[padding:].tolist())
        finally:
            self.is_asking = False
        self.tally.add(decision, row)
        if decision.keys_values is not None and seen.cache is not None:
            repair(seen.cache, row, padding, len(input_ids), decision.keys_values)
        return decision.token

    def close(self) -> None:
        """Stop watching the model."""
        self.watch.remove()

    def __enter__(self) -> "GuardProcessor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Seen:
    """What the model gave in its last pass."""

    def __init__(self, logits: Tensor, mask: Tensor | None, cache: Any, is_prompt: bool) -> None:
        """Take logits (B, V), a mask (B, T) or None, the cache or None, and if a prompt was read.

        Without a cache every pass reads everything, and none is said to read a prompt.
        """
        self.is_prompt = is_prompt
        self.logits = logits
        self.mask = mask
        self.cache = cache

    def count_padding(self, row: int) -> int:
        """Count the padding before a row.

        Raises:
            ConfigError: There is some elsewhere, or the mask is not (B, T).
        """
        if self.mask is None:
            return 0
        if self.mask.ndim != 2:
            raise ConfigError(
                expected="an attention mask of (rows, tokens)",
                found=f"one of {tuple(self.mask.shape)}",
                remedy="Generate with a dynamic cache.",
            )
        hidden = self.mask[row] == 0
        padding = int(hidden.sum())
        if not bool(hidden[:padding].all()):
            raise ConfigError(
                expected="padding at the left only",
                found=f"hidden tokens elsewhere in row {row}",
                remedy='Set tokenizer.padding_side = "left".',
            )
        return padding


def repair(cache: Any, row: int, padding: int, num_tokens: int, keys_values: Entries) -> None:
    """Write a row's entries anew in a cache of transformers, rounded to its dtype.

    Args:
        padding: Tokens before the row. num_tokens: Of the row, padding included.
    Raises:
        ConfigError: The cache does not keep exactly the last positions of each layer.
        InvariantBroken: The entries do not fit.
    """
    for layer, written in zip(cache.layers, keys_values, strict=True):
        dropped = num_tokens - layer.keys.shape[2]
        if dropped < 0:
            raise ConfigError(
                expected="a cache that grows with its tokens",
                found=type(layer).__name__,
                remedy="Generate with a dynamic cache.",
            )
        start = max(0, padding - dropped)
        for place, new in zip((layer.keys, layer.values), written, strict=True):
            write_last(place[row, :, start:], new)
