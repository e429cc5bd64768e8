"""What is captured of a machine is the same twice, and what cannot be known is not made up."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from samebits.errors import RecordCorrupt
from samebits.lock import processor
from samebits.lock.capture import capture_machine, list_pools
from samebits.lock.facts import MachineFacts
from samebits.lock.processor import read_cpu_flags, read_processor
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.record.typed import plain_value, read_typed

INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R)  Platinum 8481C CPU @ 2.70GHz
stepping\t: 8
flags\t\t: fpu sse2 avx2 fma avx512f avx512_vnni amx_tile hypervisor

processor\t: 1
model name\t: another
"""
ARM = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm sve bf16 i8mm
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd40
CPU revision\t: 1
"""


def test_two_captures_of_an_unchanged_machine_are_equal_bytes() -> None:
    one, other = capture_machine(os.environ), capture_machine(os.environ)
    data = canonical_bytes(plain_value(one))
    assert data == canonical_bytes(plain_value(other))
    assert read_typed(MachineFacts, parse_json(data), "machine") == one


def test_a_capture_holds_no_clock_host_user_or_path() -> None:
    text = json.dumps(plain_value(capture_machine(os.environ)))
    assert "/" not in text
    assert os.uname().nodename not in text


def test_packages_are_told_with_their_local_tags_and_without_importing_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        if name != "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return "2.13.0+cpu"

    monkeypatch.setattr("samebits.lock.capture.version", version)
    assert capture_machine({}).packages == {"torch": "2.13.0+cpu"}


def test_a_capture_loads_none_of_the_packages_that_it_names() -> None:
    code = """
import sys
from samebits.lock.capture import capture_machine
capture_machine({})
print(*{"numpy", "scipy", "torch", "transformers", "tokenizers"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_threads_of_a_library_are_those_in_force_not_those_asked_for() -> None:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(1):
        pools = list_pools()
        assert {pool.threads for pool in pools if pool.api == "blas"} == {1}
        facts = capture_machine({"OMP_NUM_THREADS": "7"})
    assert facts.variables == {"OMP_NUM_THREADS": "7"}
    assert facts.pools == pools


@pytest.mark.parametrize(
    ("text", "name", "isa"),
    [
        (
            INTEL,
            "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz (6 143 8)",
            ("amx_tile", "avx2", "avx512_vnni", "avx512f", "fma", "sse2"),
        ),
        (ARM, "(0x41 0x1 0xd40 1)", ("asimd", "bf16", "i8mm", "sve")),
        ("", "", ()),
        ("\x00 nothing : of the kind", "", ()),
    ],
)
def test_processors_are_named_with_the_flags_that_kernels_are_chosen_by(
    tmp_path: Path, text: str, name: str, isa: tuple[str, ...]
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert read_processor(tmp_path / "cpuinfo") == (name, isa)


def test_no_flags_are_made_up_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert read_processor(tmp_path / "nothing").isa == ()


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {3}, raising=False)
    assert processor.count_cores() == 1


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"cores": "2"}, "machine.cores: an integer"),
        ({"isa": [1]}, r"machine.isa\[0\]: a text"),
        ({"packages": {"torch": 2}}, "machine.packages: a text"),
        ({"host": "x"}, "no unknown key"),
        ({"pools": [{"api": "blas"}]}, r"machine.pools\[0\]: the keys"),
    ],
)
def test_facts_of_another_shape_are_refused(changes: dict[str, object], found: str) -> None:
    value = {**plain_value(capture_machine({})), **changes}
    with pytest.raises(RecordCorrupt, match=found):
        read_typed(MachineFacts, value, "machine")


def test_flags_are_those_of_the_first_processor(tmp_path: Path) -> None:
    table = tmp_path / "cpuinfo"
    table.write_text("model name\t: X\nflags\t\t: fpu avx2\n\nflags\t\t: other\n")
    assert read_cpu_flags(table) == {"fpu", "avx2"}
    assert read_cpu_flags(tmp_path / "none") == frozenset()
