"""An import loads nothing heavy, and no PyTorch. What help loads: tests/cli/test_imports.py."""

import json
import subprocess
import sys

LIST_MODULES = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"


def modules_loaded_by(code: str) -> set[str]:
    """Run code in a fresh interpreter; its last line prints what it has loaded."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_bare_import_loads_nothing_heavy_and_no_other_part_of_the_package() -> None:
    loaded = modules_loaded_by("import samebits" + LIST_MODULES)
    assert loaded.isdisjoint({"numpy", "torch", "tokenizers", "typer", "rich"})
    assert {name for name in loaded if name.startswith("samebits.")} == set()


def test_the_package_loads_no_torch_when_every_name_is_used() -> None:
    code = "import samebits; [getattr(samebits, name) for name in samebits.__all__]" + LIST_MODULES
    loaded = modules_loaded_by(code)
    assert "samebits.engine" in loaded
    assert loaded.isdisjoint({"torch", "transformers"})
