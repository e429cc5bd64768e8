"""Which family reads which architecture name."""

from samebits.errors import ConfigError
from samebits.model.families.family import Family
from samebits.model.families.gemma3 import GEMMA3
from samebits.model.families.llama import LLAMA
from samebits.model.families.mistral import MISTRAL
from samebits.model.families.qwen2 import QWEN2
from samebits.model.families.qwen3 import QWEN3
from samebits.model.settings import Settings

_GGUF = {family.name: family for family in (LLAMA, QWEN2, QWEN3, GEMMA3)}
_FOLDER = {
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gemma3_text": GEMMA3,
}


def find_gguf_family(architecture: str, settings: Settings) -> Family:
    """Find the family of a GGUF architecture; llama.cpp files Mistral under llama.

    Raises:
        ConfigError: No family reads it.
    """
    if architecture == "llama" and settings.take("attention.sliding_window") is not None:
        return MISTRAL
    return _find(_GGUF, architecture, settings)


def find_folder_family(settings: Settings) -> Family:
    """Find the family of a config.json by its model_type.

    Raises:
        ConfigError: No family reads it.
    """
    return _find(_FOLDER, settings.take_text("model_type"), settings)


def _find(known: dict[str, Family], name: str, settings: Settings) -> Family:
    family = known.get(name)
    if family is None:
        raise ConfigError(
            expected=f"one of {', '.join(sorted(known))} as architecture in {settings.where}",
            found=name,
            remedy="This architecture is not implemented.",
        )
    return family
