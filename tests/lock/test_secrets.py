"""No secret that is planted anywhere reaches a lock file or what is printed."""

import contextlib
import io
import os
import secrets
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.cli import run_line
from samebits.lock.contents import Package
from samebits.lock.flags import FLAGS, select_flags
from samebits.lock.masking import mask
from samebits.lock.packages import list_by_name
from samebits.lock.probe import FoundPackage
from samebits.lock.variables import HIDDEN, VARIABLES
from tests.lock.places import bare_python, plain_variables, write_package

LETTERS = st.text("abcdefghijkmnopqrstuvwxyzABCDEFGHIJKLMNOP0123456789_-", min_size=24, max_size=48)


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


def plant(folder: Path, marker: str) -> tuple[dict[str, str], list[str]]:
    """Plant a marker everywhere; give the environment and the options."""
    site = folder / f"site-{marker}"
    write_package(
        site,
        "demo",
        "1.0",
        f"demo/{marker}.py,sha256={marker},1\n",
        direct_url=f'{{"url": "https://{marker}:{marker}@host/{marker}", "vcs_info": '
        f'{{"vcs": "git", "commit_id": "{marker}"}}}}',
        extra=f"Author: {marker}\nHome-page: https://{marker}@host\nSummary: {marker}",
    )
    write_package(site, "other", f"1.0+{marker}_{marker}", None)
    write_package(site, f"{marker}/x", "1.0", None)
    model = folder / f"model-{marker}"
    model.mkdir()
    for name in ("config.json", f"{marker}.json", f"{marker}.safetensors"):
        (model / name).write_text(f'{{"_name_or_path": "/home/{marker}/model"}}')
    settings = folder / f"{marker}.flags"
    settings.write_text(
        f'{{"dtype": "{marker}", "api_key": "{marker}", "model": "/home/{marker}/m", '
        f'"{marker}": 1, "seed": 7, "compilation_config": {{"level": "{marker}"}}}}'
    )
    git(folder, "init", "-q")
    (folder / "file").write_text(marker)
    git(folder, "add", "file")
    git(folder, "commit", "-q", "-m", marker)
    git(folder, "remote", "add", "origin", f"https://{marker}:{marker}@host/{marker}.git")
    git(folder, "checkout", "-q", "-b", marker)
    (folder / "file").write_text(f"changed {marker}")
    # These end the interpreter, or NumPy, when they are nonsense: the next test.
    spared = {"PYTHONHASHSEED", "LD_PRELOAD", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES"}
    variables = plain_variables(PYTHONPATH=str(site)) | {
        name: marker for name in VARIABLES if name not in spared
    }
    variables |= {f"MY_{marker}": marker, "HF_TOKEN": marker, "HTTPS_PROXY": f"http://u:{marker}@h"}
    options = ["--model", str(model), "--engine-flags", str(settings)]
    return variables, [*options, "--engine-flags", f"kv_cache_dtype={marker}"]


@pytest.mark.parametrize("form", ["as it is", "with signs"])
def test_a_secret_planted_everywhere_is_in_no_byte_of_file_or_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    marker = f"s3cr{secrets.token_hex(9)}" + ("" if form == "as it is" else "-Z.z")
    folder = tmp_path / "code"
    folder.mkdir()
    variables, options = plant(folder, marker)
    python = bare_python(tmp_path)
    for name in os.environ.keys() - variables.keys():
        monkeypatch.delenv(name)
    for name, value in variables.items():
        if not name.startswith("SAMEBITS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    out = tmp_path / "out.lock"
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        assert run_line(["lock", "--out", str(out), "--python", python, *options]) == 0, (
            output.getvalue()
        )
        assert run_line(["lock", "verify", str(out), "--python", python, *options]) == 0
        assert run_line(["lock", "verify", str(out), "--json", "--python", python, *options]) == 0
        assert run_line(["lock", "fleet", f"ftp://{marker}@h", f"https://a:{marker}@h"]) == 2
        assert run_line(["lock", "fleet", f"http://h/?key={marker}", "http://h:1"]) == 2
        assert run_line(["lock", "fleet", f"http://h:{marker}/", "http://h:1"]) == 2
    text = out.read_text()
    assert '"demo"' in text and '"seed":"7"' in text and '"is_dirty":true' in text
    assert text.count(HIDDEN) >= len(VARIABLES) - 4
    for shown in (text, output.getvalue()):
        assert marker not in shown
        assert marker.lower() not in shown.lower()


def test_variables_that_end_the_interpreter_give_a_refusal_without_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = f"s3cr{secrets.token_hex(9)}"
    monkeypatch.setenv("PYTHONHASHSEED", marker)
    assert run_line(["lock", "--python", bare_python(tmp_path)]) == 2
    said = capsys.readouterr()
    assert marker not in said.out + said.err
    assert "ended with" in said.err


@given(name=st.sampled_from(sorted(FLAGS)), value=LETTERS)
def test_no_flag_takes_a_value_of_another_shape(name: str, value: str) -> None:
    assert select_flags({name: value}).values == {name: HIDDEN}


@given(name=LETTERS, value=st.one_of(LETTERS, st.integers(), st.booleans()))
def test_a_flag_that_is_not_on_the_list_is_counted_alone(name: str, value: object) -> None:
    found = select_flags({name: value, "api-key": value, "--dtype": "float16"})
    assert found.values == {"dtype": "float16"}
    assert found.num_left_out == 2


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        *((x, True) for x in ("2.13.0+cpu", "2.4.0+cu128", "0.6.3.post1", "1.0rc1", "2026.10.19")),
        *((x, True) for x in ("0.1.0.dev0", "0.9.2.dev3+g1a2b3c4d5.d20260101", "1!2.0", "v1.0")),
        *((x, False) for x in ("", "https://u:p@h", "1.0 x", "hf_abcdefgh", "1.0+a_b_c_d_e_f_g_h")),
        ("1.0+" + "x" * 21, False),
    ],
)
def test_versions_are_kept_only_in_their_shape(version: str, kept: bool) -> None:
    found = FoundPackage(name="A.b_c", version=version, record=None, origin="")
    expected = Package(version=version if kept else HIDDEN, record=None)
    assert list_by_name([found, found]) == {"a-b-c": expected}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pw@host:8/v1", "https://(not-shown)@host:8/v1"),
        ("http://me:pw", "http://me:(not-shown)"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("'http://host:8000' and http://host:1/v1", "'http://host:8000' and http://host:1/v1"),
        ("at http://u:p@h/x?token=t now", "at http://(not-shown)@h/x?(not-shown) now"),
        ("http://host:80: a longer one", "http://host:80: a longer one"),
        ("http://host:80.", "http://host:80."),
        ("ftp://pw@host", "ftp://(not-shown)@host"),
        ("at http://host/v1?key=k, see", "at http://host/v1?(not-shown) see"),
        ("/home/someone/models/x", "~/models/x"),
        ("/Users/someone", "~"),
        ("in /root/models", "in ~/models"),
        ("org/model", "org/model"),
    ],
)
def test_addresses_and_home_folders_are_masked(text: str, shown: str) -> None:
    assert mask(text) == shown
    assert mask(shown) == shown
