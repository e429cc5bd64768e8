"""Make every golden digest again after a change of contract: python -m tests.golden.regenerate.

Operations and the self-test's answers come from the reference. The model run comes from the
portable kernels, which those answers hold to the reference; its first tokens are checked against
the reference itself. --operations leaves the model, and its minute, out.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from samebits.numerics import portable, reference, selftest
from tests.golden import operations, smollm2

FOLDER = Path(__file__).parent


def write(path: Path, value: dict[str, Any]) -> None:
    """Write JSON that diffs well."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    print(path)


def regenerate_operations() -> None:
    """Digest what the reference gives."""
    answers = {name: selftest.digest_case(name, reference) for name in selftest.CASES}
    write(selftest.ANSWERS, answers)
    golden = {name: operations.digest_case(name, reference) for name in operations.CASES}
    write(FOLDER / "operations.json", golden)


def main() -> None:
    """Write selftest.json, operations.json and smollm2.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--operations", action="store_true", help="leave the model out")
    asked = parser.parse_args()
    regenerate_operations()
    if not asked.operations:
        runs = {f"w{bits}": smollm2.make_golden(portable, bits) for bits in (16, 8)}
        write(FOLDER / "smollm2.json", runs)


if __name__ == "__main__":
    main()
