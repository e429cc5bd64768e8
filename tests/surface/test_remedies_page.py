"""docs/remedies.md: its Python runs, block after block."""

import re
import subprocess
import sys
from pathlib import Path

from tests.audit.tiny_hf import write_folder

PAGE = Path(__file__).parents[2] / "docs" / "remedies.md"


def test_the_blocks_run_and_print_what_they_say(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny", "float32")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    script = "\n".join((f"FOLDER = {str(folder)!r}", *blocks))
    # In a process of its own: the first block sets what is global.
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert "False\nTrue\n" in ended.stdout and "'hit': 1" in ended.stdout
