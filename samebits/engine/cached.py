"""Completions out of an output cache: which samples are kept, and which are to be computed.

Each sample is an entry of its own: sample i of n is the only sample of `first_index` i, so a set is
replayed, and extended without doing it again. What a call knows without computing, prompt, settings
and their origins, is never taken from the cache.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from samebits.cache import Answer, Control, Identity, OutputCache
from samebits.engine.generation import Generation
from samebits.engine.in_force import Setting
from samebits.engine.kept import Kept, make_request, read_kept, spell_kept
from samebits.engine.output import Completion, FinishedEvent, TokenEvent
from samebits.errors import ConfigError

Event = TokenEvent | FinishedEvent
Follow = Callable[[Sequence[Generation]], Iterator[Event]]
"""Computes generations, as `Engine.follow`."""
OnToken = Callable[[TokenEvent], None]


class Place(NamedTuple):
    """One sample of a call."""

    generation: Generation
    number: int
    """Sample index."""

    @property
    def name(self) -> tuple[int, int]:
        """Prompt's place in the call, and sample index: what events go by."""
        return self.generation.prompt, self.number


def list_places(generations: Sequence[Generation]) -> list[Place]:
    """List the samples of all requests, in order."""
    return [Place(one, sample.index) for one in generations for sample in one.samples]


def cut_generations(places: Sequence[Place]) -> list[Generation]:
    """Make generations of the samples to compute: each run of one request's samples is one."""
    runs: list[list[Place]] = []
    for place in places:
        last = runs[-1][-1] if runs else None
        if last and last.generation is place.generation and last.number + 1 == place.number:
            runs[-1].append(place)
        else:
            runs.append([place])
    return [cut(run[0], len(run)) for run in runs]


def cut(first: Place, count: int) -> Generation:
    """Make the generation of some samples of another, from the first on."""
    whole = first.generation
    if first.number == whole.samples[0].index and count == len(whole.samples):
        return whole
    numbers = {"n": Setting(count, "asked"), "first_index": Setting(first.number, "asked")}
    return Generation(
        prompt=whole.prompt,
        prompt_ids=whole.prompt_ids,
        settings={**whole.settings, **numbers},
        tokenizer=whole.tokenizer,
        header=None,
    )


def draw(
    generations: Sequence[Generation], follow: Follow
) -> Generator[TokenEvent | tuple[FinishedEvent, list[Kept]], None, None]:
    """Compute requests; give each token, and what is finished with its samples as they are kept."""
    pieces: dict[tuple[int, int], list[str]] = {}
    for event in follow(generations):
        if isinstance(event, TokenEvent):
            pieces.setdefault((event.prompt, event.index), []).append(event.text)
            yield event
            continue
        outputs = event.completion.outputs
        yield (
            event,
            [
                Kept(output=output, pieces=tuple(pieces.pop((event.prompt, output.index))))
                for output in outputs
            ],
        )


def make_completion(generation: Generation, samples: Sequence[Kept]) -> Completion:
    """Give a request's samples with what this call asked."""
    return Completion(
        prompt_ids=generation.prompt_ids,
        outputs=tuple(kept.output for kept in samples),
        params_in_force=generation.settings,
        receipt=None,
    )


def generate_cached(
    generations: Sequence[Generation],
    identity: Identity,
    cache: OutputCache,
    follow: Follow,
    on_token: OnToken | None,
) -> list[Completion]:
    """Complete requests from a cache, computing what it lacks, and each of equal ones once."""
    places = list_places(generations)
    drawn: dict[int, Kept] = {}

    def compute(wanted: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        numbers = {places[n].name: n for n in wanted}
        for event in draw(cut_generations([places[n] for n in wanted]), follow):
            if isinstance(event, TokenEvent):
                tell(on_token, event)
                continue
            for kept in event[1]:
                number = numbers[event[0].prompt, kept.output.index]
                drawn[number] = kept
                yield number, spell_kept(kept)

    requests = [make_request(*place, identity) for place in places]
    samples = []
    for number, fetched in enumerate(cache.fetch_all(requests, compute)):
        kept = drawn.get(number) or read_kept(fetched.answer)
        samples.append(kept)
        for event in () if number in drawn else kept.events(places[number].generation.prompt):
            tell(on_token, event)
    found = iter(samples)
    return [make_completion(one, [next(found) for _ in one.samples]) for one in generations]


def tell(on_token: OnToken | None, event: TokenEvent) -> None:
    """Tell of a token, if anybody asked."""
    if on_token:
        on_token(event)


def stream_cached(
    generations: Sequence[Generation], identity: Identity, cache: OutputCache, follow: Follow
) -> Iterator[Event]:
    """Complete requests from a cache, token by token; the look-up is made before this returns.

    Equal requests under way are not shared: a reader that stops would make others wait for ever.
    """
    places = list_places(generations)
    requests = {place.name: make_request(*place, identity) for place in places}
    found = {name: cache.look(request) for name, request in requests.items()}
    samples = {name: read_kept(one.answer) for name, one in found.items() if one is not None}

    def events() -> Iterator[Event]:
        for (prompt, _), kept in list(samples.items()):
            yield from kept.events(prompt)
        left = cut_generations([place for place in places if place.name not in samples])
        waiting = {one.prompt for one in left}
        for one in generations:
            if one.prompt not in waiting:
                yield finish(one, samples)
        with closing(draw(left, follow)) as drawn:
            for event in drawn:
                if isinstance(event, TokenEvent):
                    yield event
                    continue
                for kept in event[1]:
                    name = event[0].prompt, kept.output.index
                    samples[name] = kept
                    cache.keep(requests[name], spell_kept(kept))
                whole = next(one for one in generations if one.prompt == event[0].prompt)
                if all((whole.prompt, sample.index) in samples for sample in whole.samples):
                    yield finish(whole, samples)

    return events()


def finish(generation: Generation, samples: dict[tuple[int, int], Kept]) -> FinishedEvent:
    """Give a request whose samples are all there."""
    kept = [samples[generation.prompt, sample.index] for sample in generation.samples]
    return FinishedEvent(prompt=generation.prompt, completion=make_completion(generation, kept))


def stream_recorded(
    generations: Sequence[Generation], identity: Identity, cache: OutputCache, follow: Follow
) -> Iterator[Event]:
    """Compute requests whose receipts are wanted, and keep their answers for others.

    A receipt is evidence that this engine computed these logits; a copy from a file is none, so
    such a request is never replayed.

    Raises:
        ConfigError: The cache may only replay.
    """
    if cache.control.only_if_cached:
        raise ConfigError(
            expected="receipt or only_if_cached",
            found="both: a receipt is made by computing",
        )
    control = replace(cache.control, no_cache=True)
    return record(generations, identity, cache, follow, control)


def record(
    generations: Sequence[Generation],
    identity: Identity,
    cache: OutputCache,
    follow: Follow,
    control: Control,
) -> Iterator[Event]:
    """Compute requests and keep their answers."""
    with closing(draw(generations, follow)) as drawn:
        for event in drawn:
            if isinstance(event, TokenEvent):
                yield event
                continue
            finished, samples = event
            whole = next(one for one in generations if one.prompt == finished.prompt)
            for kept in samples:
                request = make_request(whole, kept.output.index, identity)
                cache.keep(request, spell_kept(kept), control=control)
            yield finished
