"""Values that options may take, for help and for refusals before anything is loaded."""

from enum import StrEnum


class WeightsName(StrEnum):
    """Bits of the integer weights."""

    W16 = "w16"
    W8 = "w8"


class ArithmeticName(StrEnum):
    """Kinds of numbers."""

    SB1 = "sb1"
    PLAIN_F32 = "plain-f32"
    PLAIN_BF16 = "plain-bf16"
    PLAIN_F64 = "plain-f64"


class LanguageName(StrEnum):
    """Languages of reports."""

    EN = "en"
    ZH = "zh"


class FormatName(StrEnum):
    """Formats of reports."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


class NeedName(StrEnum):
    """What has to stay the same."""

    BITS = "bits"
    TOKENS = "tokens"


DEFAULT_MODEL = "smollm2"
MODEL_HELP = "smollm2 (fetched on first use), a GGUF file, a Hugging Face folder, or hf:OWNER/NAME."
