"""Chat templates render as transformers renders them, with the clock stopped and within bounds."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import ModelFileError, RequestError
from samebits.model.files import open_model
from samebits.model.template import ChatTemplate

CHATS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "hi"}],
    [{"role": "system", "content": "Be <b>brief</b> & 'kind'."}, {"role": "user", "content": "é"}],
    [
        {"role": "user", "content": "one\n\ntwo  "},
        {"role": "assistant", "content": "three", "extra": {"ü": [1, None, True]}},
        {"role": "user", "content": "{{ bos_token }}"},
    ],
]

SOURCES = [
    "{{ bos_token }}{% for m in messages %}\n  {% if m.role != 'x' %}\n[{{ m.role }}] "
    "{{ m['content'] | trim }}{{ eos_token }}\n  {% endif %}\n{% endfor %}\n"
    "{%- if add_generation_prompt %}[assistant]{% endif %}",
    "{% for m in messages %}{% if loop.index0 > 1 %}{% break %}{% endif %}{{ m | tojson }}"
    "{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + m.content|length %}"
    "{% endfor %}{{ ns.n }}{{ tools is none }}{{ 'ab' * 3 }}{{ 7 % 4 }}",
    "{% generation %}{{ messages[-1].content }}{% endgeneration %}{{ messages|length }}",
    "{{ messages[0] | tojson(indent=2) }}{{ dict(a=1) }}{{ range(3) | list }}",
    "{%- macro show(m) -%}<{{ m.role }}>{%- endmacro -%}{% for m in messages %}{{ show(m) }}"
    "{% continue %}never{% endfor %}",
]


def render_with_transformers(source: str, chat: list[dict[str, Any]]) -> str:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    rendered, _ = utils.render_jinja_template(
        [chat],
        chat_template=source,
        add_generation_prompt=True,
        bos_token="<s>",
        eos_token="</s>",
    )
    text: str = rendered[0]
    return text


@pytest.mark.parametrize("chat", CHATS, ids=["one", "system", "turns"])
@pytest.mark.parametrize("source", SOURCES)
def test_the_text_is_that_of_transformers(source: str, chat: list[dict[str, Any]]) -> None:
    ours = ChatTemplate(source, "<s>", "</s>").render(chat)
    assert ours == render_with_transformers(source, chat)


@pytest.mark.parametrize("chat", CHATS, ids=["one", "system", "turns"])
def test_the_built_in_models_template_agrees_too(
    smollm2_path: Path, chat: list[dict[str, Any]]
) -> None:
    template = open_model(smollm2_path).template
    assert template is not None
    assert template.render(chat) == render_with_transformers(template.source, chat)
    short = template.render(chat, add_generation_prompt=False)
    assert template.render(chat) == short + "<|im_start|>assistant\n"


def test_the_clock_stands_still() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y %H:%M') }}")
    assert template.render([]) == "26 Jul 2024 12:00"
    assert template.render([], now=datetime(2030, 1, 2, tzinfo=UTC)) == "02 Jan 2030 00:00"


def test_the_digest_follows_source_and_marks() -> None:
    digests = {
        ChatTemplate(source, bos, eos).digest
        for source, bos, eos in [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "", "")]
    }
    assert len(digests) == 4
    assert ChatTemplate("a", "b").digest == ChatTemplate("a", "b").digest


def test_rendering_leaves_the_messages_alone() -> None:
    chat = [{"role": "user", "content": "hi"}]
    with pytest.raises(RequestError):
        ChatTemplate("{{ messages[0].update(role='x') }}").render(chat)
    with pytest.raises(RequestError):
        ChatTemplate("{{ messages.append(1) }}").render(chat)
    assert chat == [{"role": "user", "content": "hi"}]


HOSTILE = {
    "refusal": ("{{ raise_exception('only user and assistant') }}", "only user and assistant"),
    "class": ("{{ ''.__class__.__mro__ }}", "__class__|unsafe|Security"),
    "missing": ("{{ messages[9].content.x }}", "Undefined|undefined"),
    "division": ("{{ 1 / 0 }}", "ZeroDivisionError"),
    "include": ("{% include 'x' %}", "loader|TypeError|Template"),
    "endless macro": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    "endless text": ("{{ 'x' * 999999999 }}", "more than"),
    "endless list": ("{{ [1] * 999999999 }}", "more than"),
    "endless loops": (
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "range gave more",
    ),
    "power": ("{{ 9 ** 9 ** 9 }}", r"\*\*"),
    "width": ("{{ '%999999999d' % 1 }}", "%"),
    "much text": (
        "{% set s = 'x' * 9999999 %}{{ s }}{{ s }}",
        "longer than",
    ),
}


def test_a_format_string_reaches_no_attributes() -> None:
    assert ChatTemplate("{{ '{0.__class__}'.format(1) }}").render([]) == ""


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_that_harms_is_refused(name: str) -> None:
    source, named = HOSTILE[name]
    with pytest.raises(RequestError, match=named):
        ChatTemplate(source).render([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("source", ["{% if %}", "{{", "{% nothing %}", "x" * (1 << 20) + "y"])
def test_what_is_no_template_is_refused_at_once(source: str) -> None:
    with pytest.raises(ModelFileError, match="chat template"):
        ChatTemplate(source)
