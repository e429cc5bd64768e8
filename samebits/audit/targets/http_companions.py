"""What runs beside the observed request: copies of it, or other texts of the same length."""

from collections.abc import Awaitable, Callable, Sequence

from samebits.audit.prompts import AuditPrompt
from samebits.audit.targets.http_wire import Sent, as_messages
from samebits.errors import ConfigError

Count = Callable[[str], Awaitable[int | None]]
"""Tokens of a text; None if they cannot be counted."""


class Companions:
    """Make neighbours, and remember them: the same ones run beside a prompt each time."""

    def __init__(self, count: Count) -> None:
        """Make none yet."""
        self._count = count
        self._made: dict[tuple[str, str], str] = {}

    async def make(
        self, sent: Sent, neighbours: str, num: int, texts: Sequence[AuditPrompt]
    ) -> list[Sent]:
        """Give the requests beside one.

        Args:
            neighbours: copies, others or more.
            texts: What to take others from.

        Raises:
            ConfigError: There are no texts.
        """
        if neighbours == "copies" or num == 0:
            return [sent] * num
        if not texts:
            raise ConfigError(expected="texts to take neighbours from", found="none")
        pattern = last_text(sent)
        made: list[Sent] = []
        for place in range(num):
            turn, which = divmod(place, len(texts))
            text = turn_words(plain_text(texts[which]), turn, is_half=neighbours == "more")
            made.append(replace_last_text(sent, await self._fit(text, pattern)))
        return made

    async def _fit(self, text: str, pattern: str) -> str:
        """Cut a text to the length of another: in tokens if they can be counted."""
        key = (text, pattern)
        if key not in self._made:
            self._made[key] = await self._cut(text, pattern)
        return self._made[key]

    async def _cut(self, text: str, pattern: str) -> str:
        long = f"{text} " * (1 + 4 * len(pattern) // len(text))
        wanted = await self._count(pattern)
        if wanted is None:
            return long[: len(pattern)]
        low, high = 0, len(long)
        # More text never has fewer tokens, but for the odd merge at the cut.
        while high - low > 1:
            middle = (low + high) // 2
            counted = await self._count(long[:middle])
            if counted == wanted:
                return long[:middle]
            low, high = (middle, high) if (counted or 0) < wanted else (low, middle)
        return long[: max(1, low)]


def plain_text(prompt: AuditPrompt) -> str:
    """Give a prompt's text, or that of its last message."""
    if prompt.text is not None:
        return prompt.text or " "
    return (prompt.messages or (("user", ""),))[-1][1] or " "


def turn_words(text: str, turn: int, *, is_half: bool) -> str:
    """Begin a text at another word, so that few texts make many neighbours."""
    words = text.split(" ")
    start = (turn + (len(words) + 1) // 2 * is_half) % len(words)
    return " ".join([*words[start:], *words[:start]])


def last_text(sent: Sent) -> str:
    """Give the part of a prompt that neighbours replace."""
    return sent if isinstance(sent, str) else sent[-1]["content"]


def replace_last_text(sent: Sent, text: str) -> Sent:
    """Put another text in its place."""
    if isinstance(sent, str):
        return text
    return [*as_messages(sent)[:-1], {**sent[-1], "content": text}]


def put_mark(sent: Sent, mark: str) -> Sent:
    """Put a mark before a prompt, which makes all of it new to a prefix cache."""
    if isinstance(sent, str):
        return mark + sent
    first = {**sent[0], "content": mark + sent[0]["content"]}
    return [first, *as_messages(sent)[1:]]
