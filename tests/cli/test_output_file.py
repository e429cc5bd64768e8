"""What is written replaces a regular file or nothing; what cannot be written is refused first."""

import os
import socket
import stat
from pathlib import Path

import pytest

from samebits.cli.output_file import check_writable, write_atomically
from samebits.errors import ConfigError
from tests.cli.command import assert_refused, call

LONGEST_NAME = 255
"""Bytes of a file name on every file system we know."""


def test_a_pipe_is_refused_and_stays_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ended = call(capsys, "generate", "a", "--model", "no-such", "--receipt", str(pipe))
    assert_refused(ended, "--receipt", "no regular file")
    assert_refused(call(capsys, "demo", "--out", str(pipe)), "--out", "no regular file")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_to_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with pytest.raises(ConfigError, match="no regular file"):
        check_writable(tmp_path / "link", "--out")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The name of a socket may have some hundred bytes only.
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(ConfigError, match="no regular file"):
            check_writable(Path("s"), "--out")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        check_writable(tmp_path, "--out")


def test_a_link_is_kept_and_its_target_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "file"
    link.symlink_to(Path("there", "file"))
    for text in ("new", "newer"):
        check_writable(link, "--out")
        write_atomically(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match="--out"):
        check_writable(tmp_path / "loop", "--out")


def test_a_name_too_long_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(tmp_path / ("r" * (LONGEST_NAME + 45)))
    ended = call(capsys, "generate", "a", "--model", "no-such", "--receipt", name)
    assert_refused(ended, "--receipt", "name too long")


def test_the_longest_name_is_written(tmp_path: Path) -> None:
    file = tmp_path / ("r" * LONGEST_NAME)
    check_writable(file, "--receipt")
    write_atomically(file, "text")
    assert file.read_text() == "text"


def test_a_file_taken_for_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Not a directory"):
        check_writable(tmp_path / "file" / "r.json", "--receipt")
