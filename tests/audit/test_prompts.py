"""A file of prompts is read as written or refused by line."""

from pathlib import Path

import pytest

from samebits.audit.prompts import AuditPrompt, as_messages, load_built_in, load_prompts_file
from samebits.errors import ConfigError


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_the_built_in_prompts_can_show_a_rate_of_a_quarter() -> None:
    built_in = load_built_in()
    assert 1 - 0.05 ** (1 / len(built_in.prompts)) < 0.25
    lengths = sorted(len(prompt.text or "") for prompt in built_in.prompts)
    assert lengths[-1] > 8 * lengths[0]
    assert not {p.text for p in built_in.prompts} & {c.text for c in built_in.companions}


def test_a_text_file_holds_one_prompt_a_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "\ufeffone\r\n\n two\u2028still two \n")
    assert [(p.id, p.text) for p in load_prompts_file(path).prompts] == [
        ("1", "one"),
        ("3", " two\u2028still two "),
    ]


def test_a_json_lines_file_holds_objects(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.jsonl",
        '{"prompt": "1 + 1 =", "answer": "2", "id": "sum"}\n'
        '{"messages": [{"role": "system", "content": ""}, {"role": "user", "content": "Hi"}]}\n',
    )
    first, second = load_prompts_file(path).prompts
    assert first == AuditPrompt(id="sum", text="1 + 1 =", answer="2")
    assert second == AuditPrompt(id="2", messages=(("system", ""), ("user", "Hi")))
    assert as_messages(first) == [{"role": "user", "content": "1 + 1 ="}]


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("", "0 lines with text"),
        ("{}\n", "neither"),
        ('{"prompt": "a", "messages": []}\n', "both"),
        ('{"prompt": ""}\n', "a text that is not empty"),
        ('{"prompt": "a"}\n{"prompt": 3}\n', "line 2"),
        ('{"prompt": "a", "promt": "b"}\n', "promt"),
        ('{"prompt": "a", "id": "x"}\n{"prompt": "b", "id": "x"}\n', "'x' twice"),
        ('{"prompt": "a"\n', "line 1"),
        ('{"prompt": "a", "prompt": "b"}\n', "twice"),
        ('["a"]\n', "list"),
        ('{"messages": []}\n', "not empty"),
        ('{"messages": [{"role": "user"}]}\n', "role and content"),
        ('{"messages": [{"role": "boss", "content": "a"}]}\n', "'boss'"),
    ],
)
def test_what_is_no_prompt_is_refused_by_line(tmp_path: Path, text: str, needle: str) -> None:
    with pytest.raises(ConfigError, match=needle):
        load_prompts_file(write(tmp_path, "a.jsonl", text))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_prompts_file(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match="directory"):
        load_prompts_file(tmp_path)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_prompts_file(tmp_path / "latin.txt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "one\ntwo\none\n"),
        ("a.jsonl", '{"prompt": "one", "id": "1"}\n{"prompt": "one", "id": "3", "answer": "x"}\n'),
    ],
)
def test_one_prompt_written_twice_is_no_second_piece_of_evidence(
    tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(ConfigError, match="'3' asks what '1' asks"):
        load_prompts_file(write(tmp_path, name, text))
