"""Every word of a report, in English and Chinese.

The texts are in words_en.py and words_zh.py; sentences that an analysis or a target gives in
English come from fixed lists and are translated by sentences.py.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from samebits.audit.results import Rate
from samebits.errors import ConfigError
from samebits.report.sentences import translate
from samebits.report.visible import TEXT_CHARACTERS, show
from samebits.report.words_en import ENGLISH
from samebits.report.words_zh import CHINESE

LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "zh": CHINESE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """One language."""

    language: str
    texts: Mapping[str, str]

    def __call__(self, key: str, **values: object) -> str:
        """Give a text with its values filled in."""
        return self.texts[key].format_map(values)

    def count(self, noun: str, number: int) -> str:
        """Count things: "1 prompt", "2 prompts"."""
        return self(f"{noun}.one" if number == 1 else f"{noun}.many", n=f"{number:,}")

    def name(self, kind: str, key: str) -> str:
        """Give the name of an axis, a verdict …; its key, if it has none."""
        return self.texts.get(f"{kind}.{key}", show(key))

    def axis(self, key: str) -> str:
        """Name an axis within a sentence."""
        name = self.name("axis", key)
        return name[:1].lower() + name[1:] if name[1:2].islower() else name

    def level(self, level: str) -> str:
        """Name the level of a contrast; values are given as they are."""
        return self.texts.get(f"level.{level}") or self.sentence(level)

    def join(self, parts: list[str]) -> str:
        """List things in a sentence."""
        return self.texts["comma"].join(parts)

    def join_sentences(self, parts: Iterable[str]) -> str:
        """Put remarks after each other."""
        return self.texts["semicolon"].join(parts)

    def labels(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Give the labels of columns; # before a key stays."""
        return tuple("#" * key.startswith("#") + self.texts[key.removeprefix("#")] for key in keys)

    def sentence(self, text: str, limit: int = 4 * TEXT_CHARACTERS) -> str:
        """Give a sentence that came in English, translated if it is known."""
        return show(text if self.language == "en" else translate(text), limit)

    def percent(self, share: float) -> str:
        """Spell a share; nothing but 0 is spelled 0, nothing but 1 is spelled 100."""
        return self("percent", n=spell_percent(100 * share))

    def rate(self, rate: Rate) -> str:
        """Spell counts with the interval."""
        if not rate.of:
            return self("none")
        low, high = spell_percent(100 * rate.low), spell_percent(100 * rate.high)
        return self("rate", num=rate.num, of=rate.of, low=low, high=high)

    def share(self, rate: Rate) -> str:
        """Spell counts alone."""
        return f"{rate.num}/{rate.of}" if rate.of else self("none")


def words_for(language: str) -> Words:
    """Give a language by its code.

    Raises:
        ConfigError: It is not one of ours.
    """
    if language not in LANGUAGES:
        raise ConfigError(expected=f"a language: {', '.join(LANGUAGES)}", found=language)
    return Words(language=language, texts=LANGUAGES[language])


def spell_percent(value: float) -> str:
    """Spell a percentage with no more digits than it needs."""
    ranges: tuple[tuple[bool, Callable[[], str]], ...] = (
        (value == 0, lambda: "0"),
        (value < 0.1, lambda: "<0.1"),
        (value < 9.95, lambda: f"{value:.1f}".removesuffix(".0")),
        (99.5 <= value < 100, lambda: f"{min(value, 99.9):.1f}"),
    )
    return next((spell() for holds, spell in ranges if holds), f"{value:.0f}")
