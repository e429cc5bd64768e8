"""One request under way: its samples, their text, and the evidence gathered for a receipt.

Knows no pages and no neighbours.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.engine.in_force import Setting, params_in_force
from samebits.engine.output import Completion, Output, TokenEvent
from samebits.engine.sample import SamplerKernels, TokenLogprobs, check_logits, choose, measure
from samebits.engine.text import TextStream, Tokenizer
from samebits.record.receipt import Header, LogitChain, Receipt, Sample


class SampleState:
    """One sample of a request, token by token.

    Attributes:
        token_ids: Tokens drawn so far.
        finish_reason: None while it goes on.
    """

    def __init__(self, generation: "Generation", index: int) -> None:
        self.generation = generation
        self.index = index
        self.token_ids: list[int] = []
        self.stream = TextStream(generation.tokenizer, generation.params.stop)
        self.logprobs: list[TokenLogprobs] = []
        self.chain = LogitChain(generation.header, index) if generation.header else None
        self.finish_reason: str | None = None

    def accept(self, logits: NDArray[np.float32], kernels: SamplerKernels) -> TokenEvent:
        """Choose a token from raw (V,) logits and take it in.

        Raises:
            UnsupportedInput: The logits hold NaN or infinity.
        """
        generation, params = self.generation, self.generation.params
        check_logits(logits)
        if self.chain:
            self.chain.push(logits)
        token = choose(
            logits,
            params,
            kernels,
            prompt=generation.prompt_ids,
            output=self.token_ids,
            sample_index=self.index,
        )
        if params.logprobs is not None:
            self.logprobs.append(measure(logits, token, params.logprobs, kernels))
        text = self.take(token)
        return TokenEvent(
            prompt=generation.prompt,
            index=self.index,
            token_id=token,
            text=text,
            finish_reason=self.finish_reason,
            logprobs=self.logprobs[-1] if self.logprobs else None,
        )

    def take(self, token: int) -> str:
        """Add a token, decide whether it is the last, give the text that became certain."""
        params = self.generation.params
        self.token_ids.append(token)
        is_eos = token in self.generation.tokenizer.eos_ids and not params.ignore_eos
        text = "" if is_eos else self.stream.push(token)
        if is_eos or self.stream.is_stopped:
            self.finish_reason = "stop"
        elif len(self.token_ids) == params.max_tokens:
            self.finish_reason = "length"
        if self.finish_reason:
            text += self.stream.finish()
            self.finish_reason = "stop" if self.stream.is_stopped else self.finish_reason
        return text

    def make_output(self) -> Output:
        """Give the finished sample."""
        assert self.finish_reason is not None
        return Output(
            index=self.index,
            token_ids=tuple(self.token_ids),
            text=self.stream.text,
            finish_reason=self.finish_reason,
            logprobs=None if self.generation.params.logprobs is None else tuple(self.logprobs),
        )

    def make_record(self) -> Sample:
        """Give the finished sample for a receipt."""
        assert self.chain is not None
        assert self.finish_reason is not None
        return Sample(
            index=self.index,
            token_ids=tuple(self.token_ids),
            finish_reason=self.finish_reason,
            steps=tuple(self.chain.steps),
            chain=self.chain.link,
        )


class Generation:
    """One request.

    Attributes:
        events: Tokens drawn and not yet fetched, in the order they came.
        header: Set if a receipt was asked for.
    """

    def __init__(
        self,
        *,
        prompt: int,
        prompt_ids: Sequence[int],
        settings: Mapping[str, Setting],
        tokenizer: Tokenizer,
        header: Header | None,
    ) -> None:
        self.prompt = prompt
        self.prompt_ids = tuple(prompt_ids)
        self.settings = settings
        self.params = params_in_force(settings)
        self.tokenizer = tokenizer
        self.header = header
        self.events: deque[TokenEvent] = deque()
        first = self.params.first_index
        self.samples = [SampleState(self, first + i) for i in range(self.params.n)]

    @property
    def is_finished(self) -> bool:
        """Whether every sample is."""
        return all(sample.finish_reason for sample in self.samples)

    def make_completion(self, observed: Mapping[str, Any]) -> Completion:
        """Give the finished request; observed goes into its receipt, undigested."""
        receipt: Receipt | None = None
        if self.header:
            records = tuple(sample.make_record() for sample in self.samples)
            receipt = Receipt(header=self.header, samples=records, observed=observed)
        return Completion(
            prompt_ids=self.prompt_ids,
            outputs=tuple(sample.make_output() for sample in self.samples),
            params_in_force=self.settings,
            receipt=receipt,
        )
