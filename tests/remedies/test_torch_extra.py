"""Without PyTorch the package says which extra to install, and nothing else suffers."""

import subprocess
import sys

import pytest

import samebits
from samebits.errors import ConfigError
from samebits.remedies.torch_extra import need


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_the_extra_is_named_where_a_library_is_missing(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "transformers":
        pytest.importorskip("torch")
    with pytest.raises(ConfigError, match=rf'expected {missing} .*pip install "samebits\[torch\]"'):
        samebits.stabilize(object())


def test_a_library_that_is_broken_inside_is_not_called_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        need("json.no_such_module")


def test_importing_the_door_imports_no_torch() -> None:
    code = "import samebits, sys; samebits.stabilize; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
