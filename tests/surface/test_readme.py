"""The READMEs: short, alike in both languages, and their code does what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READMES = ("README.md", "README.zh-CN.md")
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    ((?:scripts/\w|samebits |python3 )[^#\n]*)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def python_of(name: str) -> str:
    [code] = PYTHON_BLOCK.findall(read(name))
    return str(code)


def commands_of(name: str) -> list[str]:
    return [command.strip() for command in COMMAND.findall(read(name))]


@pytest.mark.parametrize("name", READMES)
def test_a_readme_has_at_most_150_lines(name: str) -> None:
    assert len(read(name).splitlines()) <= 150


def test_both_readmes_name_the_same_commands() -> None:
    english, chinese = map(commands_of, READMES)
    assert english == chinese
    assert english[:2] == ["scripts/demo", "scripts/test"]


def test_both_readmes_show_the_same_code_in_ten_lines() -> None:
    english, chinese = map(python_of, READMES)
    assert english == chinese
    assert len(english.splitlines()) == 10


@pytest.mark.parametrize("name", READMES)
def test_every_link_of_a_readme_leads_to_a_file(name: str) -> None:
    targets = [target for target in LINK.findall(read(name)) if "//" not in target]
    assert len(targets) >= 5
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_every_verb_a_readme_names_exists() -> None:
    from samebits.cli.app import app

    named = {c.split()[1] for c in commands_of("README.md") if c.startswith("samebits ")}
    verbs = {verb.callback.__name__ for verb in app.registered_commands if verb.callback}
    groups = {str(group.name) for group in app.registered_groups}
    assert named - {"VERB"} == verbs | groups


def test_the_ten_lines_print_the_same_digest_twice() -> None:
    command = [sys.executable, "-W", "error", "-c", python_of("README.md")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert DIGEST.fullmatch(first)
    assert first == second
