"""The engine: requests in, tokens out. A prompt's walk through it is docs/walk.md.

Works in the caller's thread; streams may be interleaved. What else is under way reaches speed,
never bits.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from samebits.cache import Identity, OutputCache
from samebits.engine.cached import generate_cached, stream_cached, stream_recorded
from samebits.engine.generation import Generation
from samebits.engine.identity import make_header, observe
from samebits.engine.in_force import check_token_ids, resolve
from samebits.engine.kept import make_identity
from samebits.engine.limits import Limits
from samebits.engine.loop import Loop
from samebits.engine.output import Completion, FinishedEvent, TokenEvent
from samebits.engine.prompt import Prompt, pair, read_prompt
from samebits.engine.request import SamplingParams
from samebits.engine.score import score_chunks
from samebits.engine.text import Tokenizer
from samebits.errors import ConfigError
from samebits.model.decoder import Decoder
from samebits.model.template import ChatTemplate
from samebits.record.receipt import Header, ModelIdentity

Params = SamplingParams | Sequence[SamplingParams] | None
OnToken = Callable[[TokenEvent], None]


class Engine:
    """Generate text with one model.

    Attributes:
        decoder: The model. tokenizer: Its tokenizer. template: Its chat template, or None.
        limits: Sizes of pool and steps.
        loop: What serves the requests, step by step.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Tokenizer,
        *,
        limits: Limits,
        template: ChatTemplate | None = None,
        file_digest: Callable[[], str],
    ) -> None:
        """Build an engine around a loaded model; `Engine.load` does so from a file.

        Args:
            file_digest: gives the digest of the weight file; asked for receipts only.
        """
        self.decoder = decoder
        self.tokenizer = tokenizer
        self.template = template
        self.limits = limits
        self.file_digest = file_digest
        self.weights_digest: str | None = None
        self.is_open = True
        self.loop = Loop(decoder, limits)

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        weights: str = "w16",
        arithmetic: str = "sb1",
        threads: int | None = None,
        kernels: str = "auto",
        max_isa: str | None = None,
        page_tokens: int = 64,
        kv_tokens: int | None = None,
        max_rows: int = 256,
        chunk_tokens: int = 256,
        max_batch: int = 32,
        cache_dir: Path | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> "Engine":
        """Load a model from a GGUF file or a Hugging Face folder; fetch it first if need be.

        Of these, only `weights` and `arithmetic` reach the bits.

        Args:
            model: a path, "smollm2" or "hf:owner/name". cache_dir: where fetched models lie; None
                means the user's cache.
            weights: w16 or w8. arithmetic: sb1, plain-f32, plain-bf16 or plain-f64.
            threads: None means one for each processor this process may use.
            kernels: auto, reference, portable or native. max_isa: the highest level to use.
            kv_tokens: size of the pool; None means 1 GiB of keys and values (engine/limits.py).
            page_tokens, max_rows, chunk_tokens, max_batch: see `Limits`.
            progress: told the fraction of the weights that is loaded.
        Raises:
            ConfigError: A setting nobody implements, or kernels that fail their self-test.
            ModelFileError: A file is missing, damaged or foreign.
        """
        # load.py makes an Engine, so it cannot be imported before there is one.
        from samebits.engine.load import load_engine

        return load_engine(
            model,
            weights=weights,
            arithmetic=arithmetic,
            threads=threads,
            kernels=kernels,
            max_isa=max_isa,
            kv_tokens=kv_tokens,
            cache_dir=cache_dir,
            progress=progress,
            page_tokens=page_tokens,
            max_rows=max_rows,
            chunk_tokens=chunk_tokens,
            max_batch=max_batch,
        )

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: Params = None,
        *,
        receipt: bool = False,
        on_token: OnToken | None = None,
        cache: OutputCache | None = None,
    ) -> list[Completion]:
        """Complete all prompts; the same prompt and parameters give the same bits in any company.

        Args:
            prompts: texts, lists of token ids, or lists of messages for the chat template.
            params: for all prompts, or one for each; None means the defaults.
            receipt: record what is needed to check each completion again.
            on_token: told each token as it is drawn or replayed.
            cache: replays completions equal in every field, and keeps new ones. Not with a receipt,
                which is evidence of computing: then the cache only keeps.
        Returns:
            One completion a prompt, in order.
        Raises:
            RequestError: A prompt or parameter cannot be served; nothing was started.
            NotCached: The cache may only replay, and does not hold it.
            UnsupportedInput: The numbers overflowed; nothing stays under way.
        """
        if cache is not None and not receipt:
            generations = self.make_generations(prompts, params)
            return generate_cached(generations, self.cache_identity, cache, self.follow, on_token)
        done: dict[int, Completion] = {}
        for event in self.stream(prompts, params, receipt=receipt, cache=cache):
            if isinstance(event, FinishedEvent):
                done[event.prompt] = event.completion
            elif on_token:
                on_token(event)
        return [done[place] for place in range(len(done))]

    def stream(
        self,
        prompts: Sequence[Prompt],
        params: Params = None,
        *,
        receipt: bool = False,
        cache: OutputCache | None = None,
    ) -> Iterator[TokenEvent | FinishedEvent]:
        """Complete all prompts, giving each token as it is drawn and each prompt as it finishes.

        Closing the iterator cancels what is left. Arguments and errors: as for `generate`; a
        refusal is raised by this call, not by the first `next`.
        """
        generations = self.make_generations(prompts, params, receipt=receipt)
        if cache is None:
            return self.follow(generations)
        through = stream_recorded if receipt else stream_cached
        return through(generations, self.cache_identity, cache, self.follow)

    def make_generations(
        self, prompts: Sequence[Prompt], params: Params, *, receipt: bool = False
    ) -> list[Generation]:
        """Check all requests of a call; start nothing."""
        return [
            self.make_generation(prompt, each, place=place, receipt=receipt)
            for place, (prompt, each) in enumerate(pair(prompts, params))
        ]

    def make_generation(
        self, prompt: Prompt, params: SamplingParams, *, place: int = 0, receipt: bool = False
    ) -> Generation:
        """Check one request against the model and the pool; start nothing.

        Raises:
            RequestError: It cannot be served.
        """
        self.check_open()
        read = read_prompt(prompt, self.tokenizer, self.template)
        ids = check_token_ids(read.token_ids, self.decoder.config)
        settings = resolve(params, len(ids), self.decoder.config, self.limits)
        header: Header | None = None
        if receipt:
            header = make_header(
                self.decoder.arithmetic,
                self.identity,
                text=read.text,
                prompt_ids=ids,
                settings=settings,
            )
        return Generation(
            prompt=place,
            prompt_ids=ids,
            settings=settings,
            tokenizer=self.tokenizer,
            header=header,
        )

    def follow(self, generations: Sequence[Generation]) -> Iterator[TokenEvent | FinishedEvent]:
        """Submit requests and step until they are finished; cancel them if left early."""
        with ExitStack() as undo:
            for generation in generations:
                self.check_open()
                undo.callback(self.loop.cancel, generation)
                self.loop.submit(generation)
            left = list(generations)
            while left:
                for generation in list(left):
                    news, is_finished = self.loop.take_news(generation)
                    yield from news
                    if is_finished:
                        left.remove(generation)
                        yield self.make_finished(generation)
                if left:
                    self.loop.advance(left[0])

    def make_finished(self, generation: Generation) -> FinishedEvent:
        """Give a finished request, with what served it."""
        completion = generation.make_completion(observe(self.decoder.arithmetic))
        return FinishedEvent(prompt=generation.prompt, completion=completion)

    def score(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """Give the raw logits after every token, float32 (T, V): row t predicts token t + 1.

        Raises:
            RequestError: Empty, unknown ids, longer than the context or than the free pages.
        """
        self.check_open()
        with self.loop.lock:
            return np.concatenate(list(score_chunks(self.loop, token_ids)))

    @property
    def identity(self) -> ModelIdentity:
        """Digests of the model; the weights are digested when first asked for."""
        return ModelIdentity(
            weight_file=self.file_digest(),
            weights=self.digest_weights(),
            tokenizer=self.tokenizer.digest,
            template=self.template.digest if self.template else None,
        )

    @cached_property
    def cache_identity(self) -> Identity:
        """What an output cache tells this engine's answers by."""
        return make_identity(
            self.decoder.arithmetic,
            weights=self.digest_weights(),
            tokenizer=self.tokenizer.digest,
            template=self.template.digest if self.template else None,
        )

    def digest_weights(self) -> str:
        """Digest the weights when first asked."""
        if self.weights_digest is None:
            self.weights_digest = self.decoder.weights_digest()
        return self.weights_digest

    def check_open(self) -> None:
        """Refuse to work once closed.

        Raises:
            ConfigError: It is.
        """
        if not self.is_open:
            raise ConfigError(expected="an open engine", found="a closed one")

    def check_integrity(self) -> None:
        """Check the books of the pool against what runs and waits.

        Raises:
            InvariantBroken: They disagree.
        """
        self.loop.check_integrity()

    def close(self) -> None:
        """Drop every request and the key-value cache."""
        with self.loop.lock:
            self.is_open = False
            self.loop.reset()
            self.loop.cache = ()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
