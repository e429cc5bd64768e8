"""The engines that have a table, found by name."""

from collections.abc import Mapping

from samebits.errors import ConfigError
from samebits.remedies.flags import (
    jax,
    llama_cpp,
    onnxruntime,
    openvino,
    pytorch,
    sglang,
    tensorrt_llm,
    vllm,
)
from samebits.remedies.flags.table import EngineFlags

MODULES = (pytorch, vllm, sglang, tensorrt_llm, onnxruntime, openvino, jax, llama_cpp)
ENGINES: Mapping[str, EngineFlags] = {module.ENGINE.name: module.ENGINE for module in MODULES}
"""By name, in the order that they are listed in."""
OTHER_NAMES = {
    "torch": "pytorch",
    "transformers": "pytorch",
    "trtllm": "tensorrt-llm",
    "trt-llm": "tensorrt-llm",
    "ort": "onnxruntime",
    "onnx": "onnxruntime",
    "xla": "jax",
    "llamacpp": "llama.cpp",
    "llama-cpp": "llama.cpp",
}
"""What people write instead."""


def find_engine(name: str) -> EngineFlags:
    """Find an engine by its name, in any case of letters.

    Raises:
        ConfigError: There is none of that name.
    """
    known = name.casefold().replace("_", "-")
    engine = ENGINES.get(OTHER_NAMES.get(known, known))
    if engine is None:
        raise ConfigError(
            expected=f"an engine: {', '.join(ENGINES)}", found=repr(name), remedy="Correct it."
        )
    return engine
