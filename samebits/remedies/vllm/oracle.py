"""Our engine as the judge of near-ties: loaded when first asked, from the folder that vLLM serves.

Its logits are a function of the token ids alone, whatever vLLM computes besides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samebits.engine import Engine
from samebits.engine.contexts import Contexts
from samebits.errors import SamebitsError


@dataclass(slots=True, kw_only=True)
class LazyOracle:
    """Logits of sb1 for one model folder; loads it when first asked, and tries that once."""

    model: Path
    threads: int
    contexts: Contexts | None = field(default=None, repr=False)
    failure: SamebitsError | None = None
    """Why loading failed; raised again each time."""

    def decide(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Give the raw logits (V,) after the last id.

        Raises:
            SamebitsError: The model cannot be loaded, or not be asked this.
        """
        return self.load().score_last(ids)

    def load(self) -> Contexts:
        """Load the model, or fail as it failed before."""
        if self.failure is not None:
            raise self.failure
        if self.contexts is None:
            try:
                engine = Engine.load(self.model, threads=self.threads)
            except SamebitsError as error:
                self.failure = error
                raise
            self.contexts = Contexts(engine.decoder, engine.limits)
        return self.contexts

    def describe(self) -> str:
        """Say in one line how the logits are made."""
        return f"sb1, w16, of {self.model.name}"
