"""Our engine as the judge of near-ties: loaded when first asked, from the folder that vLLM serves.

Its logits are a function of the token ids alone, whatever vLLM computes besides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samebits.engine import Engine
from samebits.errors import SamebitsError
from samebits.remedies.guard.candidates import Logits
from samebits.remedies.guard.engine_oracle import AskEngine


@dataclass(slots=True, kw_only=True)
class LazyOracle:
    """Logits of sb1 for one model folder; loads it when first asked, and tries that once."""

    model: Path
    threads: int
    asked: AskEngine | None = field(default=None, repr=False)
    failure: SamebitsError | None = None
    """Why loading failed; raised again each time."""

    def decide(self, ids: Sequence[int]) -> Logits:
        """Give the raw logits (V,) after the last id.

        Raises:
            SamebitsError: The model cannot be loaded, or not be asked this.
        """
        return self.load().decide(ids)

    def load(self) -> AskEngine:
        """Load the model, or fail as it failed before."""
        if self.failure is not None:
            # Else each time lengthens the trace, which holds the rows of every step that failed.
            raise self.failure.with_traceback(None)
        if self.asked is None:
            try:
                self.asked = AskEngine(Engine.load(self.model, threads=self.threads), self.model)
            except SamebitsError as error:
                self.failure = error
                raise
        return self.asked

    def describe(self) -> str:
        """Say in one line how the logits are made."""
        return f"sb1, w16, of {self.model.name}"
