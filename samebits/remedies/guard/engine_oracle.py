"""An oracle that asks the sb1 engine, whose logits have the same bits on any machine."""

from collections.abc import Sequence
from pathlib import Path

from samebits.engine import Engine
from samebits.engine.score import score_chunks
from samebits.errors import ConfigError
from samebits.model.folder_tokenizer import make_folder_tokenizer
from samebits.remedies.guard.candidates import Logits


class AskEngine:
    """Read the whole sequence with our engine, anew each time.

    The only oracle whose choice is the same on other machines. It has no keys and values for the
    guarded model: nothing is repaired. Each question costs a pass over all ids, in integers.
    """

    def __init__(self, engine: Engine, folder: str | Path) -> None:
        """Take an engine for the model of a folder.

        Args:
            folder: Of the guarded model; its tokenizer.json must be the engine's.
        Raises:
            ConfigError: The engine has another tokenizer, so that ids mean other tokens; one that
                was loaded from GGUF always has.
            ModelFileError: The folder has no tokenizer.json that can be read.
        """
        guarded = make_folder_tokenizer(Path(folder)).digest
        if guarded != engine.tokenizer.digest:
            raise ConfigError(
                expected=f"an engine with the guarded model's tokenizer, {guarded}",
                found=engine.tokenizer.digest,
                remedy="Load the engine from the guarded model's own folder.",
            )
        self.engine = engine

    def decide(self, ids: Sequence[int]) -> Logits:
        """Give the logits (V,) after the ids; see `Oracle`.

        Raises:
            RequestError: Ids that the engine does not know, or more than its pages hold.
        """
        self.engine.check_open()
        with self.engine.loop.lock:
            for rows in score_chunks(self.engine.loop, ids):
                last: Logits = rows[-1]
        return last

    def describe(self) -> str:
        """Say how the logits are made."""
        return f"our engine, {self.engine.decoder.arithmetic.name}"
