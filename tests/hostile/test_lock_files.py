"""Lock files that are damaged, foreign, edited or no files at all are refused by name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.cli import run_line
from samebits.errors import RecordCorrupt
from samebits.lock.contents import EngineFlags, Gpu, Lock, ModelDigests, Package
from samebits.lock.facts import MachineFacts
from samebits.lock.lock_file import LARGEST_BYTES, parse_lock, read_lock, write_lock

LOCK = Lock(
    machine=MachineFacts(
        processor="X",
        architecture="x86_64",
        isa=("avx2",),
        cores=2,
        system="Linux",
        kernel="6",
        libc="glibc 2.36",
        python="CPython 3.11.7",
        packages={},
        pools=(),
        variables={},
    ),
    gpus=(Gpu(name="G", driver="1", capability="9.0"),),
    packages={"numpy": Package(version="2.4.6", record=None)},
    torch=None,
    probe={"libm.exp": "sha256:" + "0" * 64},
    lacks=("torch is not installed",),
    threads=1,
    model=ModelDigests(files={"weights": "sha256:" + "1" * 64}, tokenizer=None, template=None),
    flags=EngineFlags(values={"dtype": "bfloat16"}, num_left_out=3),
    git=None,
)
GOOD = write_lock(LOCK).encode()


def replace(old: str, new: str) -> bytes:
    assert old.encode() in GOOD
    return GOOD.replace(old.encode(), new.encode(), 1)


DAMAGED = {
    "empty": (b"", "one line of JSON"),
    "cut": (GOOD[:-30], "one line of JSON"),
    "without its end of line": (GOOD[:-1], "another spelling"),
    "twice": (GOOD + GOOD, "one line of JSON"),
    "not UTF-8": (replace("Linux", "L").replace(b'"L"', b'"\xff"'), "UTF-8"),
    "a key twice": (replace('"cores":2', '"cores":2,"cores":2'), "'cores' twice"),
    "NaN": (replace('"cores":2', '"cores":NaN'), "NaN"),
    "deep": (b"[" * 100_000, "one line of JSON"),
    "no object": (b"[]\n", "no lock file"),
    "a receipt": (b'{"body":{"format":"samebits/receipt/v1"}}\n', "no lock file"),
    "another version": (replace("lock/v1", "lock/v2"), "samebits/lock/v2"),
    "a format of another type": (replace('"samebits/lock/v1"', "7"), "format 7"),
    "a key too many": (replace('"format"', '"extra":1,"format"'), "'extra'"),
    "a key too few": (b'{"format":"samebits/lock/v1"}\n', "'digest', 'identity'"),
    "edited": (replace('"cores":2', '"cores":4'), "damaged or edited"),
    "another digest": (replace('"sha256:', '"sha256:0'), "damaged or edited"),
    "spaces": (replace('"cores":2', '"cores": 2'), "another spelling"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_or_foreign_lock_is_refused_by_name_with_exit_code_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, said = DAMAGED[name]
    (tmp_path / "lock").write_bytes(data)
    (tmp_path / "good").write_bytes(GOOD)
    for words in (["verify", "lock"], ["diff", "lock", "good"], ["diff", "good", "lock"]):
        paths = [str(tmp_path / word) if word in ("lock", "good") else word for word in words]
        assert run_line(["lock", *paths]) == 2
        assert said in capsys.readouterr().err


def test_an_unknown_key_under_a_right_digest_is_refused() -> None:
    from samebits.lock.lock_file import FORMAT
    from samebits.record.canonical import canonical_bytes, parse_json
    from samebits.record.digest import tagged_digest

    value = parse_json(GOOD)
    value["identity"]["machine"]["host"] = "x"
    value["digest"] = tagged_digest(FORMAT, canonical_bytes(value["identity"]))
    with pytest.raises(RecordCorrupt, match=r"identity.machine: no unknown key; found 'host'"):
        parse_lock(canonical_bytes(value) + b"\n")


def test_a_whole_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(GOOD)
    assert read_lock(tmp_path / "lock") == LOCK


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, len(GOOD) - 1), bit=st.integers(0, 7))
def test_one_flipped_bit_anywhere_is_noticed(place: int, bit: int) -> None:
    data = bytearray(GOOD)
    data[place] ^= 1 << bit
    with pytest.raises(RecordCorrupt):
        parse_lock(bytes(data))


@settings(max_examples=50, deadline=None)
@given(end=st.integers(0, len(GOOD) - 1))
def test_a_lock_cut_anywhere_is_noticed(end: int) -> None:
    with pytest.raises(RecordCorrupt):
        parse_lock(GOOD[:end])


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 20)


THINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "no regular file"),
    "a folder": (Path.mkdir, "folder|directory|no regular file"),
    "a loop of links": (make_loop, "symbolic links"),
    "nothing": (lambda _path: None, "No such file"),
    "100 MB": (make_large, f"at most {LARGEST_BYTES} bytes"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", THINGS)
def test_what_is_no_lock_file_is_refused_at_once(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, said = THINGS[name]
    make(tmp_path / "lock")
    with pytest.raises(RecordCorrupt, match=said):
        read_lock(tmp_path / "lock")
    assert run_line(["lock", "verify", str(tmp_path / "lock")]) == 2
    assert "expected a lock file" in capsys.readouterr().err
