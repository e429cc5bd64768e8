"""Values that options may take, and options that several verbs share.

For help and for refusals before anything is loaded.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


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

FormatOption = Annotated[
    FormatName | None,
    typer.Option("--format", help="By the ending of --out if not given, else for a terminal."),
]
ReportOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write it here: .html, .md, .json or .txt.")
]
LanguageOption = Annotated[LanguageName, typer.Option(help="Language of the report.")]
NeedOption = Annotated[NeedName, typer.Option(help="What has to stay the same for exit code 0.")]
ENGINE_NAMES = (
    *("pytorch", "vllm", "sglang", "tensorrt-llm", "onnxruntime", "openvino", "jax"),
    "llama.cpp",
)
"""Engines that have a table of flags."""
EngineOption = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(ENGINE_NAMES)}; guessed from the command if not given."),
]
