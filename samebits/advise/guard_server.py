"""Ragged batches under a margin guard. In a worker process only."""

from collections.abc import Mapping
from typing import Any

from samebits.advise.servers import KV_TOKENS, Start
from samebits.advise.torch_servers import BatchServer
from samebits.audit.prompts import AuditPrompt
from samebits.engine import Engine
from samebits.remedies.guard.actions import Action, Escalate, LowestId, Oracle, Priority
from samebits.remedies.guard.engine_oracle import AskEngine
from samebits.remedies.guard.guard import Guard
from samebits.remedies.guard.measure import Shape, calibrate
from samebits.remedies.guard.oracles import RecomputeAlone, RecomputePrecise
from samebits.remedies.guard.rows import GuardChooser

CALIBRATED_PROMPTS = 8
CALIBRATED_TOKENS = 4
CALIBRATED_SHAPES = (Shape(padding=7), Shape(num_rows=8))


class GuardServer(BatchServer):
    """Serves ragged batches under a guard, calibrated at the start on other prompts."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        texts = [AuditPrompt(id="c", text=text) for text in start.companions[:CALIBRATED_PROMPTS]]
        oracle, action = self.make_action(start)
        calibration = calibrate(
            self.loaded.model,
            self.encode(texts),
            oracle,
            shapes=CALIBRATED_SHAPES,
            max_tokens=CALIBRATED_TOKENS,
        )
        self.guard = Guard(epsilon=calibration.epsilon, action=action, calibration=calibration)
        self.guarding = GuardChooser(self.guard)
        self.chooser = self.guarding

    def make_action(self, start: Start) -> tuple[Oracle, Action]:
        """Make what decides near-ties, and the oracle that drift is measured from."""
        model = self.loaded.model
        if start.options["action"] == "sb1":
            engine = Engine.load(start.model.path, threads=start.model.threads, kv_tokens=KV_TOKENS)
            asked = AskEngine(engine, start.model.path)
            return asked, Escalate(asked)
        if start.options["action"] == "precise":
            precise = RecomputePrecise(model)
            return precise, Escalate(precise)
        alone = RecomputeAlone(model)
        actions: Mapping[str, Action] = {
            "lowest": LowestId(),
            # The list that suits any prompt: to end comes first.
            "priority": Priority(tuple(sorted(self.loaded.stop_ids))),
            "alone": Escalate(alone),
        }
        return alone, actions[start.options["action"]]

    def counts(self) -> Mapping[str, Any]:
        """Say what the guard did."""
        sums = self.guarding.tally.counts()
        return {
            "epsilon": self.guard.epsilon,
            "calibration": str(self.guard.calibration),
            "steps": sums.steps,
            "fired": sums.fired,
            "changed": sums.changed,
            "outside": sums.outside,
            "largest_drift": sums.largest_drift,
        }
