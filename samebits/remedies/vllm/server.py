"""What a server must be for the guard to work, checked when a request is admitted.

vLLM asks a processor's class about a request in the process that speaks HTTP, and shows it the
request alone. The configuration is in the hands of the caller, so it is taken from there: without
it a request that the worker cannot serve would be admitted, and there it can no longer be refused.
"""

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from samebits.errors import ConfigError, ModelFileError, RequestError
from samebits.model.files import open_model
from samebits.remedies.vllm.arguments import ACTION, PRIORITY, Arguments

TESTED = "0.32."
"""Order of processors, batch updates and checks are those of this version of vLLM."""


def find_config() -> Any:
    """Find the configuration of the engine that is admitting a request.

    Raises:
        ConfigError: No caller has one.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if (config := getattr(frame.f_locals.get("self"), "vllm_config", None)) is not None:
            return config
        frame = frame.f_back  # type: ignore[assignment]
    raise ConfigError(expected="to be asked by vLLM's input processor", found="another caller")


def check_server(config: Any, version: str, asked: Arguments) -> None:
    """Refuse what this server cannot do.

    Args:
        config: vLLM's VllmConfig. version: vLLM's own.
    Raises:
        ConfigError: Names the setting of the server.
        RequestError: Token ids beyond the vocabulary.
    """
    if not version.startswith(TESTED):
        raise ConfigError(expected=f"vLLM {TESTED}x with {ACTION}", found=f"vLLM {version}")
    for name, is_right, found in (
        ("the V1 model runner", not config.use_v2_model_runner, "V2"),
        ("no speculative decoding", config.speculative_config is None, "it is on"),
        ("one worker", config.parallel_config.world_size == 1, "several"),
    ):
        if not is_right:
            raise ConfigError(expected=f"{name} with {ACTION}", found=found)
    vocab_size = config.model_config.get_vocab_size()
    if max(asked.priority, default=0) >= vocab_size:
        found = str(max(asked.priority))
        raise RequestError(expected=f"{PRIORITY} below {vocab_size}", found=found)
    if asked.action == "escalate":
        check_escalation(config, vocab_size)


def check_escalation(config: Any, vocab_size: int) -> None:
    """Refuse to escalate where token ids alone do not tell what the model is asked.

    Raises:
        ConfigError: Names the setting, or what our engine does not read.
    """
    model = config.model_config
    for name, is_right in (
        ("no asynchronous scheduling", not config.scheduler_config.async_scheduling),
        ("no LoRA", config.lora_config is None),
        ("a model of text alone", not model.is_multimodal_model),
        ("no hf_overrides", not model.hf_overrides),
    ):
        if not is_right:
            raise ConfigError(expected=f"{name} with {ACTION} escalate", found="a server with it")
    check_model(model.model, vocab_size)


def check_model(model: str, vocab_size: int) -> None:
    """Refuse a model that our engine does not read, or reads with another vocabulary.

    Raises:
        ConfigError: It is not a local folder, or says what does not fit.
    """
    if not os.path.isdir(model):
        raise ConfigError(
            expected=f"a server of a local model folder with {ACTION} escalate",
            found=model,
            remedy="Serve the folder that the model was downloaded to.",
        )
    if refusal := read_refusal(model, vocab_size):
        raise ConfigError(
            expected=f"a model that samebits runs with {ACTION} escalate", found=refusal
        )


@lru_cache(maxsize=8)
def read_refusal(model: str, vocab_size: int) -> str:
    """Say why our engine cannot stand in for a model; empty if it can. Reads headers alone."""
    try:
        ours = open_model(Path(model)).config.vocab_size
    except (ConfigError, ModelFileError) as error:
        return str(error)
    return "" if ours == vocab_size else f"{ours} tokens in its files, {vocab_size} in vLLM"
