"""Computes fixed things in the process that runs this file, and tells what they ran on.

Run by path, in any Python from 3.9 on, whether samebits is installed there or not; so it imports
nothing of ours, and of others only what it finds. Its one argument is the path of threadpoolctl.py.
Inputs come from an integer generator, so that no library has a say in them. What is asked of the
results is written in docs/formats.md, "Lock file".
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import math
import os
import platform
import re
import sys
from array import array
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import Distribution, distributions
from typing import Any

MARK = "samebits-probe "
"""Begins the line that is ours on standard output."""
NOT_REPEATABLE = "not repeatable"
NOT_AVAILABLE = "not available"
COUNT = 420_000
"""Integers in [-2**20, 2**20) that all inputs are cut from."""
SHAPES = ((1, 257, 129), (7, 33, 65), (128, 768, 512), (300, 1023, 301))
"""Rows, reduced, columns; the last two are large enough to be split over threads."""
RIGHT_FROM = 10_000
"""Where right factors begin, so that they are not the left ones again."""
OWN_LINES = re.compile(r"\.dist-info/(INSTALLER|REQUESTED|RECORD|direct_url\.json|uv_\w+\.json),")
"""What an installer writes about itself."""
FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, OSError, ImportError)
"""What a library raises where it lacks something."""

Case = Callable[[], bytes]


def main() -> None:
    """Write one line of JSON on what was found."""
    drop_own_folder()
    lacks: list[str] = []
    integers = make_integers(COUNT)
    numpy = load("numpy", lacks)
    torch = load("torch", lacks)
    digests = digest_all("libm", list_libm(integers), lacks)
    if numpy is not None:
        digests.update(digest_all("numpy", list_numpy(numpy, integers), lacks))
    for device in () if torch is None else list_devices(torch):
        prefix = "torch" if device == "cpu" else f"torch.{device}"
        digests.update(digest_all(prefix, list_torch(torch, integers, device), lacks))
    report = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libc": " ".join(filter(None, platform.libc_ver())),
        "packages": [describe_package(one) for one in distributions()],
        "pools": list_pools(sys.argv[1], lacks),
        "torch": None if torch is None else describe_torch(torch),
        "digests": digests,
        "lacks": lacks,
    }
    sys.stdout.write(f"\n{MARK}{json.dumps(report)}\n")


def drop_own_folder() -> None:
    """Take this file's folder off the path: its neighbours are no modules of anybody's."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]


def load(name: str, lacks: list[str]) -> Any:
    """Import a library; None if there is none, or it fails."""
    if importlib.util.find_spec(name) is None:
        lacks.append(f"{name} is not installed")
        return None
    try:
        return import_module(name)
    except FAILURES as error:
        lacks.append(f"{name} cannot be imported ({type(error).__name__})")
        return None


def make_integers(count: int) -> array[int]:
    """Make integers in [-2**20, 2**20): the high bits of a 64-bit congruential generator."""
    values = array("i", bytes(4 * count))
    state = 1
    for place in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        values[place] = (state >> 43) - 2**20
    return values


def digest_all(prefix: str, cases: Iterator[tuple[str, Case]], lacks: list[str]) -> dict[str, str]:
    """Digest the results of all cases, up to one that cannot even be made."""
    digests = {}
    try:
        for name, case in cases:
            digests[f"{prefix}.{name}"] = digest(case)
    except FAILURES as error:
        lacks.append(f"{prefix} cannot compute all cases ({type(error).__name__})")
    return digests


def digest(case: Case) -> str:
    """Digest the bytes of a result that comes out the same twice."""
    try:
        one, other = case(), case()
    except FAILURES:
        return NOT_AVAILABLE
    return f"sha256:{hashlib.sha256(one).hexdigest()}" if one == other else NOT_REPEATABLE


def list_libm(integers: array[int]) -> Iterator[tuple[str, Case]]:
    """List functions of the C library, in binary64."""
    some = [value / 2**18 for value in integers[:2000]]
    for name in ("exp", "sin", "tanh"):
        function: Callable[[float], float] = getattr(math, name)
        yield name, lambda f=function: array("d", map(f, some)).tobytes()  # type: ignore[misc]
    yield "log", lambda: array("d", (math.log(abs(x) + 1) for x in some)).tobytes()
    yield "pow", lambda: array("d", (math.pow(abs(x) + 1, x) for x in some)).tobytes()


def list_numpy(np: Any, integers: array[int]) -> Iterator[tuple[str, Case]]:
    """List cases of NumPy."""
    raw = np.frombuffer(integers, dtype=np.int32)

    def cut(rows: int, columns: int, start: int, dtype: str) -> Any:
        part = raw[start : start + rows * columns].reshape(rows, columns)
        return (part / 2**20).astype(dtype)

    for dtype in ("float32", "float64"):
        x = (raw / 2**18).astype(dtype)
        table = x[: 256 * 1023].reshape(256, 1023)
        for name in ("exp", "sin", "tanh"):
            function = getattr(np, name)
            yield f"{name}.{dtype}", lambda f=function, x=x: f(x).tobytes()  # type: ignore[misc]
        yield f"softmax.{dtype}", lambda t=table: soften(np, t).tobytes()  # type: ignore[misc]
        yield f"sum.{dtype}", lambda x=x: x.sum().tobytes()  # type: ignore[misc]
        yield f"sum_rows.{dtype}", lambda t=table: t.sum(axis=0).tobytes()  # type: ignore[misc]
        for shape in SHAPES:
            a, b = cut(shape[0], shape[1], 0, dtype), cut(shape[1], shape[2], RIGHT_FROM, dtype)
            yield spell_product(dtype, shape), lambda a=a, b=b: (a @ b).tobytes()  # type: ignore[misc]
    a, b = raw[: 64 * 101].reshape(64, 101) >> 8, raw[: 101 * 65].reshape(101, 65) >> 8
    yield "product.int32.64x101x65", lambda: (a @ b).tobytes()


def soften(np: Any, table: Any) -> Any:
    """Give the softmax of each row."""
    powers = np.exp(table - table.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def spell_product(dtype: str, shape: tuple[int, int, int]) -> str:
    """Name a matrix product."""
    return f"product.{dtype}.{'x'.join(map(str, shape))}"


def list_devices(torch: Any) -> Iterator[str]:
    """List what torch computes on: the processor, and the first GPU."""
    yield "cpu"
    try:
        if torch.cuda.is_available():
            yield "cuda"
    except FAILURES:
        return


def list_torch(torch: Any, integers: array[int], device: str) -> Iterator[tuple[str, Case]]:
    """List cases of PyTorch on a device."""
    raw = torch.frombuffer(bytearray(integers.tobytes()), dtype=torch.int32)
    for dtype in ("float32", "bfloat16", "float64"):
        kind = getattr(torch, dtype)
        x = (raw.to(torch.float64) / 2**18).to(kind)
        for name, case in list_torch_floats(torch, x, dtype, device):
            yield name, lambda f=case: read_bytes(f())  # type: ignore[misc]
    if device == "cpu":
        a, b = raw[: 64 * 101].reshape(64, 101) >> 8, raw[: 101 * 65].reshape(101, 65) >> 8
        yield "product.int32.64x101x65", lambda: read_bytes(a @ b)


def list_torch_floats(
    torch: Any, whole: Any, dtype: str, device: str
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """List cases of one dtype; each gives a tensor."""
    f = torch.nn.functional
    x = whole.to(device)
    table = x[: 256 * 1023].reshape(256, 1023)
    for name in ("exp", "sin", "tanh"):
        function = getattr(torch, name)
        yield f"{name}.{dtype}", lambda f=function: f(x)  # type: ignore[misc]
    yield f"gelu.{dtype}", lambda: f.gelu(x)
    yield f"softmax.{dtype}", lambda: torch.softmax(table, dim=1)
    yield f"layer_norm.{dtype}", lambda: f.layer_norm(table, (1023,))
    yield f"sum.{dtype}", lambda: x.sum()
    yield f"sum_rows.{dtype}", lambda: table.sum(dim=0)
    q, k, v = (x[start:][: 4 * 131 * 64].reshape(1, 4, 131, 64) for start in (0, 40_000, 80_000))
    attend = f.scaled_dot_product_attention
    yield f"attention.{dtype}.1x4x131x64", lambda: attend(q, k, v, is_causal=True)
    for rows, reduced, columns in SHAPES:
        a = x[: rows * reduced].reshape(rows, reduced) / 4
        b = x[RIGHT_FROM:][: reduced * columns].reshape(columns, reduced) / 4
        name = spell_product(dtype, (rows, reduced, columns))
        yield name, lambda a=a, b=b: f.linear(a, b)  # type: ignore[misc]


def read_bytes(tensor: Any) -> bytes:
    """Read the bytes of a tensor; NumPy need not be there, and has no bfloat16."""
    here = tensor.detach().to("cpu").contiguous()
    return ctypes.string_at(here.data_ptr(), here.numel() * here.element_size())


def describe_torch(torch: Any) -> dict[str, Any]:
    """Tell what torch is built with and what is in force, after it has computed."""
    built = torch.__config__.show()
    parallel = torch.__config__.parallel_info()
    return {
        "version": str(torch.__version__),
        "capability": str(torch.backends.cpu.get_cpu_capability()),
        "threads": int(torch.get_num_threads()),
        "interop_threads": int(torch.get_num_interop_threads()),
        "mkl_threads": find_number(r"mkl_get_max_threads\(\) : (\d+)", parallel),
        "mkl": find_text(r"Math Kernel Library Version (\d[\w.]*)", built),
        "onednn": find_text(r"MKL-DNN v(\d[\w.]*)", built),
        "cuda": find_text(r"(\d[\w.]*)", str(torch.version.cuda or "")),
        "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "matmul_precision": str(torch.get_float32_matmul_precision()),
    }


def find_text(pattern: str, text: str) -> str:
    """Find the first group of a pattern; empty if it is not there."""
    found = re.search(pattern, text, re.ASCII)
    return found.group(1) if found else ""


def find_number(pattern: str, text: str) -> int | None:
    """Find a number; None if it is not there."""
    found = find_text(pattern, text)
    return int(found) if found else None


def list_pools(path: str, lacks: list[str]) -> list[dict[str, Any]]:
    """List the thread pools of all libraries that are loaded by now."""
    try:
        spec = importlib.util.spec_from_file_location("samebits_threadpoolctl", path)
        if spec is None or spec.loader is None:
            raise ImportError(path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found = module.threadpool_info()
    except FAILURES as error:
        lacks.append(f"thread pools cannot be read ({type(error).__name__})")
        return []
    return [
        {
            "api": str(one["user_api"]),
            "name": str(one["internal_api"]),
            "prefix": str(one["prefix"]),
            "version": one.get("version"),
            "architecture": one.get("architecture"),
            "threading": one.get("threading_layer"),
            "threads": int(one["num_threads"]),
        }
        for one in found
    ]


def describe_package(found: Distribution) -> dict[str, Any]:
    """Tell a package's name and version, what its wheel held, and where it came from."""
    return {
        "name": str(found.metadata["Name"] or ""),
        "version": str(found.metadata["Version"] or ""),
        "record": digest_record(found.read_text("RECORD")),
        "origin": read_origin(found.read_text("direct_url.json")),
    }


def digest_record(text: str | None) -> str | None:
    """Digest the lines of a RECORD that come from the wheel; None if there is no RECORD.

    Scripts outside the folder of packages name the interpreter's path, and compiled files and
    notes of the installer depend on who installed: one wheel has one digest without them.
    """
    if text is None:
        return None
    lines = sorted(line for line in text.splitlines() if line and is_of_wheel(line))
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def is_of_wheel(line: str) -> bool:
    """Answer whether a line of a RECORD is about a file of the wheel."""
    is_elsewhere = line.lstrip('"').startswith(("../", "/"))
    return not (is_elsewhere or ".pyc," in line or OWN_LINES.search(line))


def read_origin(text: str | None) -> str:
    """Tell whether a package comes from an index (empty), a folder, a file or a commit.

    Never where from: an address may hold a password.
    """
    if text is None:
        return ""
    try:
        value = json.loads(text)
        commit = str(value.get("vcs_info", {}).get("commit_id", ""))
        if "vcs_info" in value:
            return f"commit {commit}" if re.fullmatch("[0-9a-f]{7,64}", commit) else "commit"
        is_editable = value.get("dir_info", {}).get("editable") is True
    except (ValueError, AttributeError):
        return "unreadable"
    if is_editable:
        return "editable folder"
    return "folder" if "dir_info" in value else "file"


if __name__ == "__main__":
    main()
