"""Graphics processors and their drivers, as far as the system tells. Loads no library of theirs."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from samebits.lock.contents import Gpu
from samebits.lock.variables import HIDDEN

QUERY = ("--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader")
TIMEOUT_S = 20.0
PCI = Path("/sys/bus/pci/devices")
NVIDIA = Path("/proc/driver/nvidia")
MAKERS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
"""Makers of processors that models run on; a virtual screen is none."""
DISPLAYS = ("0x03", "0x12")
"""Classes of devices: displays, accelerators."""
SHAPE = re.compile(r"[\w .()/+@-]{1,80}", re.ASCII)


def list_gpus(variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """List the processors in order; empty if there are none.

    Args:
        variables: The environment that nvidia-smi is looked for and run in.
    """
    named = list(ask_nvidia(variables)) or list(read_nvidia(NVIDIA))
    others = [gpu for maker, gpu in read_bus(PCI) if maker != "NVIDIA" or not named]
    return (*named, *others)


def ask_nvidia(variables: Mapping[str, str]) -> Iterator[Gpu]:
    """Ask nvidia-smi, if there is one."""
    program = shutil.which("nvidia-smi", path=variables.get("PATH", ""))
    if program is None:
        return
    try:
        done = subprocess.run(
            (program, *QUERY),
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        # Then the files of the driver are read.
        return
    for line in done.stdout.decode("ascii", "replace").splitlines():
        parts = [part.strip() for part in line.split(",")]
        if done.returncode == 0 and len(parts) == 3:
            name, driver, capability = map(shape, parts)
            yield Gpu(name=name, driver=driver, capability=capability)


def read_nvidia(folder: Path) -> Iterator[Gpu]:
    """Read what NVIDIA's driver tells of its processors."""
    found = re.search(r"Kernel Module\D*?(\d+(\.\d+)+)", read_file(folder / "version"))
    for file in sorted(folder.glob("gpus/*/information")):
        model = re.search(r"Model:\s*(.+)", read_file(file))
        name = shape(model.group(1).strip()) if model else "NVIDIA"
        yield Gpu(name=name, driver=found.group(1) if found else "", capability="")


def read_bus(folder: Path) -> Iterator[tuple[str, Gpu]]:
    """Read the devices on the bus, with their makers."""
    for device in sorted(folder.glob("*")):
        maker = MAKERS.get(read_file(device / "vendor").strip(), "")
        if maker and read_file(device / "class").startswith(DISPLAYS):
            name = shape(f"{maker} {read_file(device / 'device').strip()}")
            driver = read_file(device / "driver" / "module" / "version").strip()
            yield maker, Gpu(name=name, driver=shape(driver) if driver else "", capability="")


def read_file(path: Path) -> str:
    """Read a small file of the system; empty if there is none."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def shape(text: str) -> str:
    """Give a text that looks like a name or a version, else a mark that it does not."""
    return text if SHAPE.fullmatch(text) else HIDDEN
