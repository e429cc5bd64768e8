"""Chat templates: messages to the text of a prompt.

Renders as transformers does, in jinja2's sandbox, with the clock stopped: the prompt is a function
of the template and the messages alone. A template is a program from a stranger; what it may use up
is bounded by counts, never by time, so that the bound falls at the same place everywhere.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from samebits.errors import ModelFileError, RequestError

FROZEN_NOW = datetime(2024, 7, 26, 12, 0, 0, tzinfo=UTC)
"""What a template is told when it asks for the time; the date that Llama 3.1's template names."""

SOURCE_LIMIT_CHARS = 1 << 20
TEXT_LIMIT_CHARS = 1 << 24
RANGE_LIMIT = 100_000
"""Numbers that all calls of range in one rendering may give together."""

_FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


class ChatTemplate:
    """A compiled chat template.

    Attributes:
        source: The template as the model's maker wrote it.
        digest: "sha256:..." of the source, of the bos and eos texts.
    """

    __slots__ = ("_bos", "_eos", "_template", "digest", "source")

    def __init__(self, source: str, bos: str = "", eos: str = "") -> None:
        """Compile a template; bos and eos are what it prints as bos_token and eos_token.

        Raises:
            ModelFileError: It is too long or not a template.
        """
        if len(source) > SOURCE_LIMIT_CHARS:
            raise ModelFileError(
                expected=f"a chat template of at most {SOURCE_LIMIT_CHARS} characters",
                found=str(len(source)),
            )
        self.source = source
        self._bos = bos
        self._eos = eos
        named = json.dumps([source, bos, eos]).encode()
        self.digest = f"sha256:{hashlib.sha256(named).hexdigest()}"
        try:
            self._template = _make_environment().from_string(source)
        except (*_FAILURES, SyntaxError, RecursionError, MemoryError) as error:
            found = f"{type(error).__name__}: {error!s:.200}"
            raise ModelFileError(expected="a jinja2 chat template", found=found) from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        now: datetime = FROZEN_NOW,
    ) -> str:
        """Write the messages as the prompt the model was trained on.

        Raises:
            RequestError: The template refuses the messages, fails on them or writes too much.
        """
        values = {
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self._bos,
            "eos_token": self._eos,
            "tools": None,
            "documents": None,
            "range": _make_range(),
            "strftime_now": now.strftime,
        }
        try:
            return _join(self._template.generate(values))
        except _FAILURES as error:
            raise RequestError(
                expected="messages that the model's chat template takes",
                found=f"{type(error).__name__}: {error}",
                remedy="Check the roles and their order.",
            ) from error
        except RecursionError as error:
            raise RequestError(expected="a chat template that ends", found="recursion") from error


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with a bound on what one operator can make."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise TemplateError("** is not allowed in a chat template")
        if operator == "%" and isinstance(left, str):
            raise TemplateError("% on strings is not allowed in a chat template")
        if operator == "*":
            _check_product(left, right)
        return super().call_binop(context, operator, left, right)


class _Generation(Extension):
    """Accept {% generation %} blocks, which mark text for training, and print what is in them."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it without ClassVar

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _make_environment() -> _Environment:
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    return environment


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as transformers does: nothing escaped for HTML, keys in their own order."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _make_range() -> Callable[..., range]:
    """Make a range whose calls share one allowance, so that nested loops end too."""
    left = RANGE_LIMIT

    def bounded_range(*args: int) -> range:
        nonlocal left
        numbers = range(*args)
        left -= len(numbers)
        if left < 0:
            raise TemplateError(f"range gave more than {RANGE_LIMIT} numbers")
        return numbers

    return bounded_range


def _check_product(left: Any, right: Any) -> None:
    for one, times in ((left, right), (right, left)):
        is_repeat = isinstance(one, str | list | tuple) and isinstance(times, int)
        if is_repeat and len(one) * times > TEXT_LIMIT_CHARS:
            raise TemplateError(f"* made more than {TEXT_LIMIT_CHARS} parts")


def _join(parts: Iterable[str]) -> str:
    pieces: list[str] = []
    num_chars = 0
    for part in parts:
        num_chars += len(part)
        if num_chars > TEXT_LIMIT_CHARS:
            raise TemplateError(f"the prompt is longer than {TEXT_LIMIT_CHARS} characters")
        pieces.append(part)
    return "".join(pieces)
