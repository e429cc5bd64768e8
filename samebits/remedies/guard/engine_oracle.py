"""An oracle that asks the sb1 engine, whose logits have the same bits on any machine."""

from collections.abc import Sequence
from pathlib import Path

from samebits.engine import Engine
from samebits.engine.contexts import Contexts
from samebits.errors import ConfigError
from samebits.model.folder_tokenizer import make_folder_tokenizer
from samebits.remedies.guard.candidates import Logits


class AskEngine:
    """Read a sequence with our engine; what it has read of one is kept for the next question.

    The only oracle whose choice is the same on other machines. It has no keys and values for the
    guarded model: nothing is repaired. What is kept lies beside the engine's own pages, in as many.
    """

    def __init__(self, engine: Engine, folder: str | Path) -> None:
        """Take an engine for the model of a folder.

        Args:
            folder: Of the guarded model; its tokenizer.json must be the engine's.
        Raises:
            ConfigError: Its arithmetic is not sb1, or it has another tokenizer, so that ids mean
                other tokens; an engine that was loaded from GGUF always has.
            ModelFileError: The folder has no tokenizer.json that can be read.
        """
        name = engine.decoder.arithmetic.name
        if name != "sb1":
            raise ConfigError(
                expected="an engine under sb1, whose logits follow from the ids alone", found=name
            )
        guarded = make_folder_tokenizer(Path(folder)).digest
        if guarded != engine.tokenizer.digest:
            raise ConfigError(
                expected=f"an engine with the guarded model's tokenizer, {guarded}",
                found=engine.tokenizer.digest,
                remedy="Load the engine from the guarded model's own folder.",
            )
        self.engine = engine
        self.contexts = Contexts(engine.decoder, engine.limits)

    def decide(self, ids: Sequence[int]) -> Logits:
        """Give the logits (V,) after the ids; see `Oracle`.

        Raises:
            RequestError: Ids that the engine does not know, or more than its pages hold.
        """
        self.engine.check_open()
        with self.engine.loop.lock:
            return self.contexts.score_last(ids)

    def describe(self) -> str:
        """Say how the logits are made."""
        return f"our engine, {self.engine.decoder.arithmetic.name}"
