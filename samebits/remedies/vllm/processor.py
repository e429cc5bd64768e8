"""The logits processor: decides the near-ties of the rows whose requests ask for it.

vLLM 0.32 (V1) calls processors that can change a greedy choice after the mask of allowed ids and
bad words, minimal length and bias, before penalties and temperature; the rows are float32. All of
these are refused beside the guard, so it sees raw logits and nothing comes after it.
"""

from itertools import count
from pathlib import Path
from typing import Any

from samebits.errors import SamebitsError
from samebits.remedies.guard import Guard, LowestId
from samebits.remedies.vllm.arguments import check_sampling, read_arguments
from samebits.remedies.vllm.guarded import Guarded, Step, make_action, quiet_step
from samebits.remedies.vllm.options import read_options
from samebits.remedies.vllm.oracle import LazyOracle
from samebits.remedies.vllm.report import LOG, Report
from samebits.remedies.vllm.rows import Rows
from samebits.remedies.vllm.server import check_server, find_config


class GuardProcessor:
    """What vLLM asks of a logits processor, without vLLM; plugin.py joins the two.

    Attributes:
        rows: The guarded requests of the batch.
    """

    vllm_version = ""
    """Set by plugin.py."""

    def __init__(self, vllm_config: Any, *_device_and_more: Any) -> None:
        """Read the operator's options; load no model.

        Raises:
            ConfigError: An option is wrong; the server does not start.
        """
        options = read_options(vllm_config.additional_config)
        self.rows: Rows[Guarded] = Rows(Report(options.report))
        self.oracle = LazyOracle(
            model=Path(vllm_config.model_config.model), threads=options.threads
        )
        self.numbers = count(1)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request that cannot be guarded as it asks; vLLM answers it with status 400.

        Raises:
            ValueError: What vLLM takes for a refusal; says what was expected and found.
        """
        try:
            arguments = read_arguments(sampling_params.extra_args)
            if arguments is not None:
                check_sampling(sampling_params)
                check_server(find_config(), cls.vllm_version, arguments)
        except SamebitsError as error:
            raise ValueError(str(error)) from error

    def is_argmax_invariant(self) -> bool:
        """Answer vLLM: a guard can change the greedy choice."""
        return False

    def add_request(self, _slot: int, _sampling_params: Any) -> bool:
        """Answer vLLM's V2 runner: no request is guarded there; those that ask are refused."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow the batch: who came, left and moved."""
        if batch_update is not None:
            self.rows.update(batch_update, self.enter)

    def enter(self, params: Any, prompt: list[int] | None, output: list[int]) -> Guarded | None:
        """Keep what a newcomer asks for; None if it asks for nothing."""
        try:
            arguments = read_arguments(params.extra_args)
        except SamebitsError as error:  # Nobody asked validate_params. Raised here, it ends vLLM.
            LOG.error("samebits guard: a request is served unguarded: %s", error)
            return None
        if arguments is None:
            return None
        return Guarded(
            number=next(self.numbers),
            arguments=arguments,
            prompt=prompt,
            output=output,
            guard=Guard(epsilon=arguments.epsilon, action=make_action(arguments, self.oracle)),
            plain=Guard(epsilon=arguments.epsilon, action=LowestId()),
        )

    def apply(self, logits: Any, _context: Any = None) -> Any:
        """Decide the near-ties of the guarded rows, in place.

        Args:
            logits: (R, V), float32, a tensor of PyTorch's.
        """
        if not self.rows:
            return logits
        held = list(self.rows)
        best = logits[[row for row, _ in held]].topk(2, dim=1)
        # In binary64, as the guard's core measures.
        gaps = (best.values[:, 0].double() - best.values[:, 1].double()).tolist()
        tops = best.indices[:, 0].tolist()
        for (row, guarded), gap, top in zip(held, gaps, tops, strict=True):
            if gap <= guarded.arguments.epsilon:
                self.decide(logits[row], guarded)
            else:
                # A gap that is no number: NaN or infinity are on top.
                is_number = gap < float("inf")
                guarded.note(quiet_step(guarded.position, top, unjudged=not is_number))
        return logits

    def decide(self, row: Any, guarded: Guarded) -> None:
        """Let the guard choose, and leave vLLM no other token."""
        try:
            step = guarded.decide(row.cpu().numpy())
        except SamebitsError:
            guarded.note(quiet_step(guarded.position, int(row.argmax()), unjudged=True))
            return
        if step.failure:
            LOG.warning("samebits guard, request %d: %s", guarded.number, step.failure)
        guarded.note(step)
        force(row, step)


def force(row: Any, step: Step) -> None:
    """Leave one token of a row; its logit stays what it was."""
    kept = row[step.decision.token].clone()
    row.fill_(float("-inf"))
    row[step.decision.token] = kept
