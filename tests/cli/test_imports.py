"""Help and version come quickly: nothing heavy is imported for them."""

import subprocess
import sys

import pytest

from tests.cli.command import ROOT, make_environment

HEAVY = {
    *("numpy", "torch", "tokenizers", "jinja2", "rich", "rfc8785", "threadpoolctl"),
    *("asyncio", "ssl"),
}
CODE = """
import sys
from samebits.cli import run_line
run_line(sys.argv[1:])
print("\\n".join(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["generate", "--help"], ["demo", "--help"], ["verify", "--help"]],
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=make_environment({}),
        text=True,
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "typer" in loaded
    assert not loaded & HEAVY
    # One verb's help needs no other package of ours than the command line and the errors.
    ours = {name.split(".")[1] for name in done.stderr.split() if name.startswith("samebits.")}
    assert ours == {"cli", "errors"}
