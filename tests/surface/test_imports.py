"""What a bare import and the help text load: nothing heavy, and no PyTorch."""

import json
import subprocess
import sys

import pytest

LIST_MODULES = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
RUN_HELP = """
import contextlib, io, sys
sys.argv = ["samebits", "--help"]
from samebits.cli import main
with contextlib.redirect_stdout(io.StringIO()) as shown:
    try:
        main()
    except SystemExit as stop:
        assert stop.code in (0, None), stop.code
assert "generate" in shown.getvalue()
"""


def modules_loaded_by(code: str) -> set[str]:
    """Run code in a fresh interpreter; its last line prints what it has loaded."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_bare_import_loads_no_other_part_of_the_package() -> None:
    loaded = modules_loaded_by("import samebits" + LIST_MODULES)
    assert {name for name in loaded if name.startswith("samebits.")} == set()


@pytest.mark.parametrize("heavy", ["numpy", "torch", "tokenizers", "typer", "rich"])
def test_a_bare_import_loads_nothing_heavy(heavy: str) -> None:
    assert heavy not in modules_loaded_by("import samebits" + LIST_MODULES)


def test_the_package_loads_no_torch_when_every_name_is_used() -> None:
    code = "import samebits; [getattr(samebits, name) for name in samebits.__all__]" + LIST_MODULES
    loaded = modules_loaded_by(code)
    assert "samebits.engine" in loaded
    assert loaded.isdisjoint({"torch", "transformers"})


def test_help_loads_no_torch() -> None:
    loaded = modules_loaded_by(RUN_HELP + LIST_MODULES)
    assert "samebits.cli" in loaded
    assert loaded.isdisjoint({"torch", "transformers"})
