"""Damaged, foreign and half-written records are refused by line and name, and nothing is lost."""

import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from samebits.audit.observation import Answer
from samebits.audit.record_chain import link_line, spell_line
from samebits.audit.record_reader import read_record
from samebits.audit.record_writer import RecordWriter
from samebits.errors import ConfigError, RecordCorrupt, SamebitsError
from samebits.lock.capture import capture_machine
from samebits.lock.variables import VARIABLES
from samebits.record.canonical import canonical_bytes, parse_json
from tests.audit.audit_records import (
    make_answer,
    make_header,
    make_machine,
    make_observation,
    write_record,
)

ROOT = Path(__file__).parents[2]
Lines = list[bytes]


def edit(lines: Lines) -> Lines:
    return [*lines[:2], lines[2].replace(b'"abc"', b'"abd"'), *lines[3:]]


def swap(lines: Lines) -> Lines:
    return [lines[0], lines[2], lines[1], *lines[3:]]


def tear_inside(lines: Lines) -> Lines:
    return [*lines[:2], lines[2][:40] + b"\n", *lines[3:]]


DAMAGES: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "an edited line": (edit, "line 3: the link .* edited"),
    "an edited header": (
        lambda x: [x[0].replace(b"Count to 2", b"Count to 9"), *x[1:]],
        "line 1: the link",
    ),
    "a missing line": (lambda x: [*x[:1], *x[2:]], "line 2: the link .* missing"),
    "a line twice": (lambda x: [*x[:2], x[1], *x[2:]], "line 3: the link"),
    "another order": (swap, "line 2: the link"),
    "a second header": (lambda x: [x[0], *x], "line 2: .* a second header"),
    "no header": (lambda x: x[1:], "line 1: a header first"),
    "a torn line inside": (tear_inside, "line 3: a line of a record"),
    "an empty line inside": (lambda x: [*x[:2], b"\n", *x[2:]], "line 3: a line of a record"),
    "zeros inside": (lambda x: [x[0], bytes(4096) + b"\n", *x[1:]], "line 2: a line"),
    "an empty file": (lambda _x: [], "an empty file"),
    "a torn header": (lambda x: [x[0][:-9]], "a torn one: nothing was recorded"),
    "text": (lambda _x: [b"hello\n"], "no line of a record"),
    "a demo": (lambda _x: [b'{"format":"samebits/demo/v1"}\n'], "samebits/demo/v1"),
    "spaces": (lambda x: [x[0].replace(b'{"kind":', b'{ "kind":'), *x[1:]], "samebits/audit/v1"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_refused_by_line(tmp_path: Path, name: str) -> None:
    path = write_record(tmp_path / "record")
    damage, message = DAMAGES[name]
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    damaged = path.read_bytes()
    with pytest.raises(RecordCorrupt, match=message):
        read_record(path)
    with pytest.raises(RecordCorrupt, match=message):
        RecordWriter.resume(path)
    assert path.read_bytes() == damaged


def test_a_last_line_cut_at_any_byte_is_torn_and_no_other_is_lost(tmp_path: Path) -> None:
    path = write_record(tmp_path / "record")
    whole = path.read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in range(start + 1, len(whole)):
        path.write_bytes(whole[:end])
        record = read_record(path)
        assert (record.is_torn, len(record.observations)) == (True, 2)
    path.write_bytes(whole[:start])
    assert not read_record(path).is_torn


def test_zeros_after_the_last_line_are_a_torn_line(tmp_path: Path) -> None:
    path = write_record(tmp_path / "record")
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert read_record(path).is_torn
    RecordWriter.resume(path).close()
    assert not read_record(path).is_torn


def test_every_changed_byte_of_a_whole_line_is_found(tmp_path: Path) -> None:
    path = write_record(tmp_path / "record", 2)
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    end = whole.index(b"\n", start) + 1
    for place in range(start, end):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(RecordCorrupt, match="line 2"):
            read_record(path)


def write_lines(path: Path, *items: tuple[str, Any]) -> Path:
    """Write linked lines of any content."""
    link, lines = "", []
    for kind, item in items:
        value = item if isinstance(item, bytes) else canonical_bytes(item)
        link = link_line(link, kind, value)
        lines.append(spell_line(kind, link, value))
    path.write_bytes(b"".join(lines))
    return path


def header_value(**changes: Any) -> dict[str, Any]:
    return {**make_header().value(), **changes}


def seen_value(**changes: Any) -> dict[str, Any]:
    names = ("round", "repeat", "attempt", "session")
    whole = {"condition": "{}", "prompt": "p0", "answer": {"text": "x"}, **dict.fromkeys(names, 0)}
    return {**whole, **changes}


@pytest.mark.parametrize("version", ["v0", "v9"])
def test_a_record_of_another_version_is_refused_by_its_version(
    tmp_path: Path, version: str
) -> None:
    found = f"line 1: format samebits/audit/v1; found (format )?'samebits/audit/{version}'"
    path = write_lines(tmp_path / "a", ("header", header_value(format=f"samebits/audit/{version}")))
    with pytest.raises(RecordCorrupt, match=found):
        read_record(path)
    path.write_bytes(canonical_bytes({"format": f"samebits/audit/{version}", "new": 1}) + b"\n")
    with pytest.raises(RecordCorrupt, match=found):
        read_record(path)


NONSENSE: dict[str, tuple[str, Any, str]] = {
    "an unknown kind": ("weather", {}, "one of resumed"),
    "an unknown key": ("observation", seen_value(colour=1), "no unknown key; found 'colour'"),
    "an unknown key inside": (
        "observation",
        seen_value(answer={"texts": ""}),
        "answer: no unknown",
    ),
    "a missing key": ("end", {"message": ""}, "the keys why"),
    "a wrong type": ("observation", seen_value(round="0"), "observation.round: an integer"),
    "a wrong type inside": (
        "observation",
        seen_value(answer={"margins": [0.5, "x"]}),
        r"observation.answer.margins\[1\]: a number",
    ),
    "a bool for an integer": ("observation", seen_value(repeat=True), "repeat: an integer"),
    "a number beyond integers": ("observation", seen_value(repeat=2.0**60), "repeat: an integer"),
    "an unknown reason": ("end", {"why": "tired"}, "one of complete"),
    "an unknown prompt": ("observation", seen_value(prompt="p9"), "a prompt of the header"),
    "a condition out of shape": ("observation", seen_value(condition="{} "), "condition's key"),
    "another attempt": ("observation", seen_value(attempt=3), "attempt 0; found attempt 3"),
    "a skipped resumption": ("resumed", {"attempt": 2}, "resumption 1"),
    "a key twice": ("note", b'{"a":1,"a":2}', "each key once"),
    "NaN": ("note", b'{"a":NaN}', "finite numbers"),
    "a lone surrogate": ("note", b'{"a":"\\ud800"}', "one JSON value"),
    "other bytes than UTF-8": ("note", b'{"a":"\xff"}', "one JSON value in UTF-8"),
    "no JSON": ("note", b"{nothing}", "one JSON value"),
    "deep nesting": ("note", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "one JSON value"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_well_linked_nonsense_is_refused_by_line_and_field(tmp_path: Path, name: str) -> None:
    kind, value, message = NONSENSE[name]
    path = write_lines(tmp_path / "record", ("header", header_value()), (kind, value))
    with pytest.raises(RecordCorrupt, match=f"line 2: .*{message}"):
        read_record(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": [{"id": "a"}, {"id": "a"}]}, "id once"),
        ({"machine": {}}, "header.machine: the keys"),
        ({"target": {"kind": 1}}, "header.target.kind: a text"),
        ({"axes": "repeat"}, "header.axes: a list"),
        ({"extra": 1}, "no unknown key"),
    ],
)
def test_a_header_is_checked_field_by_field(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write_lines(tmp_path / "record", ("header", header_value(**changes)))
    with pytest.raises(RecordCorrupt, match=f"line 1: .*{message}"):
        read_record(path)


def test_a_killed_audit_leaves_a_record_that_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.hostile.record_killer", str(tmp_path), "7", "15"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("torn of 15\n")


@contextmanager
def file_limit(num_bytes: int) -> Iterator[None]:
    """Have the system refuse to let a file grow any further, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_every_whole_line_and_says_how_many(tmp_path: Path) -> None:
    path = tmp_path / "record"
    answer = make_observation(Answer(text="x" * 1000))
    writer = RecordWriter.create(path, make_header())
    with file_limit(8000), pytest.raises(ConfigError, match=r"(\d+) lines are kept"):
        for _ in range(100):
            writer.append(answer)
    num_kept = writer.chain.num_lines
    assert path.stat().st_size == writer.chain.size <= 8000
    writer.close()
    record = read_record(path)
    assert (len(record.observations), record.is_torn) == (num_kept - 1, False)
    with RecordWriter.resume(path) as resumed:
        resumed.append(make_observation(make_answer("a"), attempt=1))
    assert len(read_record(path).observations) == num_kept


def test_a_full_disk_at_the_start_leaves_no_file(tmp_path: Path) -> None:
    with file_limit(100), pytest.raises(ConfigError, match="to be written"):
        RecordWriter.create(tmp_path / "record", make_header())
    assert list(tmp_path.iterdir()) == []


@contextmanager
def closed_folder() -> Iterator[Path]:
    """Give a folder nobody may write to; the administrator becomes nobody meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        write_record(path / "there")
        (path / "there").chmod(0o444)
        path.chmod(0o555)
        was = os.geteuid()
        if was == 0:
            os.seteuid(65534)
        try:
            yield path
        finally:
            os.seteuid(was)
            path.chmod(0o755)


def test_a_closed_folder_is_told(tmp_path: Path) -> None:
    with closed_folder() as folder:
        with pytest.raises(ConfigError, match="Permission denied"):
            RecordWriter.create(folder / "record", make_header())
        with pytest.raises(ConfigError, match="Permission denied"):
            RecordWriter.resume(folder / "there")
        assert len(read_record(folder / "there").observations) == 3


def test_what_is_no_file_is_told_and_never_waited_for(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (pipe, folder, tmp_path / "nothing", Path("\0"), tmp_path / ("n" * 300)):
        for act in (read_record, RecordWriter.resume):
            with pytest.raises(ConfigError):
                act(path)
    for path in (pipe, folder, tmp_path / "nothing" / "record", Path("\0")):
        with pytest.raises(ConfigError):
            RecordWriter.create(path, make_header())
    with pytest.raises(ConfigError):
        read_record(Path("/dev/zero"))


SECRETS = ("sk-proj-Abc123Def456", "hunter2", "ghp_0123456789abcdef", "AKIAIOSFODNN7EXAMPLE")


def test_no_secret_of_the_environment_reaches_a_record(tmp_path: Path) -> None:
    names = [*VARIABLES, "LD_PRELOAD", "OPENAI_API_KEY", "HF_TOKEN", "VLLM_API_KEY", "TORCH_SECRET"]
    for secret in SECRETS:
        for spelled in (secret, f"2,{secret}", f"/home/someone/{secret}.so", f"1\n{secret}\n"):
            variables = dict.fromkeys(names, spelled)
            header = make_header(machine=capture_machine(variables))
            path = write_record(tmp_path / "record", 1, header)
            text = path.read_text()
            assert secret not in text and "someone" not in text
            read_record(path)
            path.unlink()


@pytest.mark.parametrize("seed", range(3))
def test_random_damage_never_ends_in_another_error(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    path = write_record(tmp_path / "record", 5, make_header(machine=make_machine()))
    whole = path.read_bytes()
    for _ in range(150):
        start = chosen.randrange(len(whole))
        end = start + chosen.choice((0, 1, 7, 300))
        junk = chosen.randbytes(chosen.choice((0, 1, 3, 50)))
        path.write_bytes(whole[:start] + junk + whole[end:])
        try:
            record = read_record(path)
        except SamebitsError:
            continue
        assert record.is_torn or path.read_bytes() == whole[: path.stat().st_size]


def test_a_line_of_another_program_reads_the_same(tmp_path: Path) -> None:
    lines = write_record(tmp_path / "a", 1).read_bytes().splitlines()
    rows = [(row["kind"], row["value"]) for row in map(parse_json, lines)]
    assert write_lines(tmp_path / "b", *rows).read_bytes() == (tmp_path / "a").read_bytes()
