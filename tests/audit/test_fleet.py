"""Servers are asked what they are; what differs is named, and one that does not tell is refused."""

import json
import time
from collections.abc import Mapping

import pytest

from samebits.audit.fleet import ask_fleet, compare_fleet
from samebits.audit.targets.http_client import Link
from samebits.cli import run_line
from samebits.errors import ConfigError, TargetError
from tests.audit.told_servers import (
    Answer,
    llama,
    models,
    ollama,
    run_server,
    sglang,
    tell_bytes,
    tell_late,
    vllm,
)

LINK = Link(timeout_s=5.0, retries=0)


def differences(a: Mapping[str, Answer], b: Mapping[str, Answer]) -> dict[str, tuple[str, str]]:
    with run_server(a) as one, run_server(b) as other:
        found = compare_fleet(ask_fleet([one, other], LINK))
        assert all(item.field.startswith(f"{other} ") for item in found)
    return {item.field.split(" ")[1]: (item.a, item.b) for item in found}


@pytest.mark.parametrize("answers", [vllm(), sglang(dtype="auto"), llama("b1", "t"), ollama("0.9")])
def test_servers_that_tell_the_same_are_alike(answers: Mapping[str, Answer]) -> None:
    assert differences(answers, answers) == {}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (vllm("0.32.0"), vllm("0.31.2"), {"version": ("0.32.0", "0.31.2")}),
        (vllm(name="org/m"), vllm(name="org/n"), {"models": ("org/m", "org/n")}),
        (
            vllm(max_model_len=4096),
            vllm(max_model_len=8192),
            {"flags.max_model_len": ("4096", "8192")},
        ),
        (
            sglang(dtype="auto", tp_size=1, api_key="k", random_seed=3),
            sglang(dtype="bfloat16", tp_size=2, api_key="j", random_seed=3),
            {"flags.dtype": ("auto", "bfloat16"), "flags.tp_size": ("1", "2")},
        ),
        (llama("b1", "t"), llama("b2", "t"), {"version": ("b1", "b2")}),
        (
            llama("b1", "t", default_generation_settings={"n_ctx": 1}),
            llama("b1", "t"),
            {},
        ),
        (ollama("0.9"), ollama("0.10"), {"version": ("0.9", "0.10")}),
    ],
)
def test_what_differs_is_named(
    a: Mapping[str, Answer], b: Mapping[str, Answer], expected: dict[str, tuple[str, str]]
) -> None:
    assert differences(a, b) == expected


def test_templates_are_compared_by_their_digests() -> None:
    found = differences(llama("b1", "{{ secret }}"), llama("b1", "{{ other }}"))
    assert set(found) == {"template"}
    assert all(len(text) == 64 for text in found["template"])


def test_servers_of_different_kinds_differ_in_kind_and_version() -> None:
    assert differences(vllm(), ollama("0.9")).keys() >= {"kind", "version", "models"}


HUGE = tell_bytes(b"{" + b" " * (33 << 20), "application/json")
BROKEN = {
    "HTML": ({"/v1/models": tell_bytes(b"<html>hi</html>")}, "HTML"),
    "nothing of the kind": ({}, "tells nothing"),
    "a redirect elsewhere": (
        {
            "/v1/models": tell_bytes(
                b"", status=302, Location="http://u:s3cr3t@other/x?token=s3cr3t"
            )
        },
        "redirect",
    ),
    "a loop of redirects": (
        {"/v1/models": tell_bytes(b"", status=302, Location="/v1/models")},
        "redirect",
    ),
    "a huge body": ({"/v1/models": HUGE}, "a longer one"),
    "an error": ({"/v1/models": tell_bytes(b"oh", status=500)}, "status 500"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_server_that_cannot_be_asked_is_refused_with_exit_code_2(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, said = BROKEN[name]
    with run_server(vllm()) as one, run_server(answers) as other:
        assert run_line(["lock", "fleet", one, other]) == 2
        err = capsys.readouterr().err
        assert "s3cr3t" not in err
        with pytest.raises(TargetError, match=said):
            ask_fleet([one, other], LINK)


def test_a_server_that_is_slow_or_away_is_refused_in_time() -> None:
    start = time.monotonic()
    with run_server(vllm()) as one, run_server({"/v1/models": tell_late(8)}) as slow:
        with pytest.raises(TargetError, match=r"no whole reply in 0\.5 s"):
            ask_fleet([one, slow], Link(timeout_s=0.5, retries=0))
        with run_server(vllm()) as gone:
            pass
        with pytest.raises(TargetError, match="no connection"):
            ask_fleet([one, gone], LINK)
    assert time.monotonic() - start < 6


def test_the_key_comes_from_a_variable_and_stands_in_no_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cr3t-key")
    with run_server(vllm(), "s3cr3t-key") as one, run_server(vllm("1"), "s3cr3t-key") as other:
        assert run_line(["lock", "fleet", one, other, "--api-key-env", "MY_KEY", "--json"]) == 1
        out = capsys.readouterr().out
        assert [item["field"] for item in json.loads(out)["differences"]] == [f"{other} version"]
        assert run_line(["lock", "fleet", one, other]) == 2
        monkeypatch.setenv("MY_KEY", "s3cr3t-other")
        assert run_line(["lock", "fleet", one, other, "--api-key-env", "MY_KEY"]) == 2
        assert run_line(["lock", "fleet", one, other, "--api-key-env", "NO_KEY"]) == 2
        shown = capsys.readouterr()
        assert "s3cr3t" not in out + shown.out + shown.err


@pytest.mark.parametrize(
    "urls",
    [
        ["http://h:1"],
        ["http://h:1", "http://h:1/v1/models", "http://h:1"],
        ["http://u:s3cr3t@h", "http://h:1"],
        ["http://h?key=s3cr3t", "http://h:1"],
        ["file:///s3cr3t@x", "http://h:1"],
    ],
)
def test_addresses_that_cannot_be_compared_are_refused_without_their_secrets(
    urls: list[str],
) -> None:
    with pytest.raises(ConfigError) as caught:
        ask_fleet(urls, LINK)
    assert "s3cr3t" not in str(caught.value).replace("file:///s3cr3t@x", "")


def test_names_of_models_that_are_paths_are_masked() -> None:
    a, b = vllm(name="/home/somebody/m"), vllm(name="/home/somebody/n")
    assert differences(a, b) == {"models": ("~/m", "~/n")}


def test_a_server_of_no_known_kind_is_compared_by_its_models() -> None:
    a, b = {"/v1/models": models("x", "m")}, {"/v1/models": models("x", "n")}
    assert differences(a, b) == {"models": ("m", "n")}


def test_names_that_unicode_cannot_carry_are_shown_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    half = tell_bytes(b'{"data": [{"id": "\\ud800"}]}', "application/json")
    with run_server({"/v1/models": models("x", "m")}) as a, run_server({"/v1/models": half}) as b:
        assert run_line(["lock", "fleet", a, b]) == 1
        assert run_line(["lock", "fleet", a, b, "--json"]) == 1
    assert "[U+D800]" in capsys.readouterr().out
