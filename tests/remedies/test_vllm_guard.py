"""The guard in vLLM: against a small stand-in for vLLM's classes, and vLLM's own where it is there.

The stand-in (Params, Update, Direction, make_config) has the names and orders of vLLM 0.32.0;
`test_the_stand_in_is_like_vllm` holds it against an installed one, and bench/vllm_guard.py runs the
real thing.
"""

import importlib.metadata
import importlib.util
import inspect
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.engine import Engine
from samebits.engine.contexts import Contexts
from samebits.errors import ConfigError, RequestError, RequestTooLong, UnknownParameter
from samebits.remedies.vllm.arguments import NEUTRAL, Arguments, check_sampling, read_arguments
from samebits.remedies.vllm.options import read_options
from samebits.remedies.vllm.oracle import LazyOracle
from samebits.remedies.vllm.processor import GuardProcessor
from samebits.remedies.vllm.rows import Rows
from samebits.remedies.vllm.server import check_server, find_config, read_refusal
from tests.engine.tiny import make_engine
from tests.model.folder_files import write_folder

torch = pytest.importorskip("torch", reason="logits are tensors of PyTorch's")

VOCAB = 64
LOWEST = {"samebits_guard": "lowest", "samebits_epsilon": 0.5}
PRIORITY = {"samebits_guard": "priority", "samebits_epsilon": 0.5, "samebits_priority": [9, 5]}
ESCALATE = {"samebits_guard": "escalate", "samebits_epsilon": 0.5}


@dataclass(kw_only=True)
class Params:
    """Stands for vllm.SamplingParams: the fields that the guard reads."""

    extra_args: dict[str, Any] | None = None
    temperature: float = 0.0
    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_tokens: int = 0
    logit_bias: dict[int, float] | None = None
    bad_words: list[str] = field(default_factory=list)
    allowed_token_ids: list[int] | None = None
    structured_outputs: object | None = None
    thinking_token_budget: int | None = None
    trace_decode_token_ids: list[int] | None = None


class Direction(Enum):
    """Stands for MoveDirectionality."""

    UNIDIRECTIONAL = auto()
    SWAP = auto()


@dataclass(frozen=True, kw_only=True)
class Update:
    """Stands for BatchUpdate."""

    batch_size: int
    removed: Sequence[int] = ()
    added: Sequence[tuple[int, Params, list[int] | None, list[int]]] = ()
    moved: Sequence[tuple[int, int, Direction]] = ()


def make_config(model: str = "absent", additional: Any = None, **changes: Any) -> Any:
    """Make what stands for VllmConfig: a server that can do everything the guard asks."""
    return SimpleNamespace(
        additional_config=additional or {},
        use_v2_model_runner=changes.get("v2", False),
        speculative_config=changes.get("speculative"),
        lora_config=changes.get("lora"),
        parallel_config=SimpleNamespace(world_size=changes.get("workers", 1)),
        scheduler_config=SimpleNamespace(async_scheduling=changes.get("asynchronous", False)),
        model_config=SimpleNamespace(
            model=model,
            is_multimodal_model=changes.get("multimodal", False),
            hf_overrides=changes.get("overrides", {}),
            get_vocab_size=lambda: changes.get("vocab_size", VOCAB),
        ),
    )


class Version32(GuardProcessor):
    vllm_version = "0.32.0"


class InputProcessor:
    """Stands for vLLM's class of this name, which holds the configuration and asks."""

    def __init__(self, config: Any) -> None:
        self.vllm_config = config

    def admit(self, params: Params) -> None:
        (lambda: Version32.validate_params(params))()


class Table:
    """An oracle that prefers a fixed token, and fails where told to."""

    def __init__(self, token: int, error: Exception | None = None) -> None:
        self.token, self.error = token, error
        self.asked: list[list[int]] = []

    def decide(self, ids: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
        self.asked.append(list(ids))
        if self.error:
            raise self.error
        logits = np.zeros(VOCAB, np.float32)
        logits[self.token] = 1
        return logits

    def describe(self) -> str:
        return "a table"


def make_row(**values: float) -> Any:
    """Make logits of zero but for `t<id>=value`."""
    row = torch.zeros(VOCAB)
    for name, value in values.items():
        row[int(name[1:])] = value
    return row


def start(extra: dict[str, Any] | None, *others: dict[str, Any] | None, **config: Any) -> Any:
    """Start a processor with requests in rows 0, 1, …; give it and their lists of output ids."""
    processor = Version32(make_config(**config), "cpu", False)
    outputs: list[list[int]] = [[] for _ in range(1 + len(others))]
    added = [
        (row, Params(extra_args=each), [1, 2, 3], outputs[row])
        for row, each in enumerate((extra, *others))
    ]
    processor.update_state(Update(batch_size=len(added), added=added))
    return processor, outputs


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "vllm.samebits_guard"]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.INFO, logger="vllm.samebits_guard")
    yield caplog


# What a request may say.


def test_a_request_without_our_keys_is_none_of_our_business() -> None:
    assert read_arguments(None) is None
    assert read_arguments({"session_id": "x", "kv_transfer_params": {}}) is None


def test_what_is_asked_is_read() -> None:
    assert read_arguments({**PRIORITY, "other": 1}) == Arguments(
        action="priority", epsilon=0.5, priority=(9, 5)
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"samebits_epsilom": 1}, "samebits_epsilom"),
        ({"samebits": {"epsilon": 1}}, "samebits"),
        ({"samebits_guard": "highest"}, "highest"),
        ({"samebits_guard": ["lowest"]}, "samebits_guard"),
        ({"samebits_epsilon": float("nan")}, "nan"),
        ({"samebits_epsilon": float("inf")}, "inf"),
        ({"samebits_epsilon": -1e-9}, "-1e-09"),
        ({"samebits_epsilon": 1e300}, "1e+300"),
        ({"samebits_epsilon": 10**400}, "samebits_epsilon"),
        ({"samebits_epsilon": "0.5"}, "'0.5'"),
        ({"samebits_epsilon": True}, "True"),
        ({"samebits_epsilon": None}, "None"),
        ({"samebits_epsilon": [0.5]}, "samebits_epsilon"),
        ({"samebits_priority": [1]}, "samebits_priority"),
        ({"samebits_guard": "priority"}, "samebits_priority"),
        ({"samebits_guard": "priority", "samebits_priority": []}, "samebits_priority"),
        ({"samebits_guard": "priority", "samebits_priority": 5}, "samebits_priority"),
        ({"samebits_guard": "priority", "samebits_priority": [5, 5]}, "once"),
        ({"samebits_guard": "priority", "samebits_priority": [5, -1]}, "-1"),
        ({"samebits_guard": "priority", "samebits_priority": [5, 1.5]}, "1.5"),
        ({"samebits_guard": "priority", "samebits_priority": ["yes"]}, "yes"),
        ({"samebits_guard": "priority", "samebits_priority": list(range(2000))}, "1024"),
    ],
)
def test_what_nobody_can_serve_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(RequestError) as refusal:
        read_arguments({**LOWEST, **change})
    assert named in str(refusal.value)


def test_an_unknown_key_is_refused_even_alone() -> None:
    with pytest.raises(UnknownParameter):
        read_arguments({"samebits_gard": "lowest"})


@pytest.mark.parametrize("left", LOWEST)
def test_neither_action_nor_epsilon_has_a_default(left: str) -> None:
    with pytest.raises(RequestError, match="samebits_"):
        read_arguments({left: LOWEST[left]})


CHANGES: dict[str, Any] = {
    "temperature": 0.7,
    "n": 2,
    "presence_penalty": 0.1,
    "frequency_penalty": -0.1,
    "repetition_penalty": 1.1,
    "min_tokens": 1,
    "logit_bias": {5: 1.0},
    "bad_words": ["no"],
    "allowed_token_ids": [1, 2],
    "structured_outputs": object(),
    "thinking_token_budget": 0,
    "trace_decode_token_ids": [],
}


@pytest.mark.parametrize("name", NEUTRAL)
def test_whatever_else_would_touch_the_logits_is_refused_by_name(name: str) -> None:
    check_sampling(Params())
    with pytest.raises(RequestError, match=name):
        check_sampling(Params(**{name: CHANGES[name]}))


# What a server must be.


def test_a_refusal_reaches_vllm_as_the_error_that_it_answers_with_400() -> None:
    InputProcessor(make_config()).admit(Params(extra_args=LOWEST))
    InputProcessor(make_config(v2=True)).admit(Params(temperature=0.7))
    with pytest.raises(ValueError, match="temperature") as refusal:
        InputProcessor(make_config()).admit(Params(extra_args=LOWEST, temperature=0.7))
    assert isinstance(refusal.value.__cause__, RequestError)


def test_a_guarded_request_is_refused_where_no_configuration_is_at_hand() -> None:
    with pytest.raises(ConfigError, match="input processor"):
        find_config()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"v2": True}, "V1 model runner"),
        ({"speculative": object()}, "speculative"),
        ({"workers": 2}, "one worker"),
        ({"asynchronous": True}, "asynchronous"),
        ({"lora": object()}, "LoRA"),
        ({"multimodal": True}, "text"),
        ({"overrides": {"rope_theta": 1}}, "hf_overrides"),
        ({"model": "owner/name"}, "local model folder"),
    ],
)
def test_a_server_that_cannot_escalate_refuses_by_name(change: dict[str, Any], named: str) -> None:
    asked = Arguments(action="escalate", epsilon=0.5)
    with pytest.raises(ConfigError, match=named):
        check_server(make_config(**change), "0.32.0", asked)


def test_an_untested_version_of_vllm_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"0\.33\.1"):
        check_server(make_config(), "0.33.1", Arguments(action="lowest", epsilon=0))


def test_priority_ids_beyond_the_vocabulary_are_refused() -> None:
    asked = Arguments(action="priority", epsilon=0, priority=(VOCAB,))
    with pytest.raises(RequestError, match=str(VOCAB)):
        check_server(make_config(), "0.32.0", asked)


def test_a_folder_that_our_engine_does_not_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    asked = Arguments(action="escalate", epsilon=0.5)
    with pytest.raises(ConfigError, match="a model that samebits runs"):
        check_server(make_config(str(tmp_path)), "0.32.0", asked)


# What the operator sets.


def test_options_of_others_are_left_alone() -> None:
    assert read_options({"elsewhere": 1}) == read_options(object()) == read_options({})


@pytest.mark.parametrize(
    "given",
    [
        {"raport": "x"},
        {"threads": 0},
        {"threads": True},
        {"threads": 1.0},
        {"report": 5},
        {"report": ""},
        {"report": "/nowhere/at/all/x.jsonl"},
        [],
    ],
)
def test_a_wrong_option_stops_the_server_from_starting(given: Any) -> None:
    with pytest.raises(ConfigError, match="samebits"):
        Version32(make_config(additional={"samebits": given}), "cpu", False)


# What is decided.


def test_rows_of_others_keep_every_bit() -> None:
    processor, _ = start(LOWEST, None, None)
    logits = torch.stack([make_row(t5=1.0, t9=1.1), make_row(t5=1.0, t9=1.1), make_row(t0=-0.0)])
    before = logits.clone()
    given = processor.apply(logits)
    assert given is logits
    assert torch.equal(logits[1:].view(torch.int32), before[1:].view(torch.int32))


def test_without_guarded_requests_logits_are_not_even_read() -> None:
    processor, _ = start(None, {"session_id": "x"})
    nothing = object()
    assert processor.apply(nothing) is nothing


@pytest.mark.parametrize(("extra", "token"), [(LOWEST, 5), (PRIORITY, 9), (ESCALATE, 7)])
def test_each_action_leaves_one_token_and_its_logit(extra: dict[str, Any], token: int) -> None:
    processor, _ = start(extra)
    processor.rows.held[0].guard = guard_with(processor, Table(7), extra)
    logits = make_row(t5=1.0, t9=1.1, t7=0.9, t4=0.5)[None].clone()
    kept = float(logits[0, token])
    processor.apply(logits)
    assert logits[0].argmax() == token
    assert float(logits[0, token]) == kept
    assert int(torch.isfinite(logits).sum()) == 1


def guard_with(processor: Any, oracle: Table, extra: dict[str, Any]) -> Any:
    """Make the guard of a request whose escalations go to a table."""
    processor.oracle = oracle
    return processor.enter(Params(extra_args=extra), [1, 2, 3], []).guard


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_the_border_of_epsilon_is_closed(gap: float) -> None:
    processor, _ = start(LOWEST)
    logits = make_row(t5=1.0, t9=1.0 + gap)[None].clone()
    assert processor.apply(logits)[0].argmax() == 5


def test_a_step_without_a_near_tie_keeps_every_bit() -> None:
    processor, _ = start(LOWEST)
    logits = make_row(t5=1.0, t9=float(np.nextafter(np.float32(1.5), np.float32(2))))[None].clone()
    before = logits.clone()
    assert torch.equal(processor.apply(logits), before)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_say_nothing_are_left_and_counted(
    bad: float, log: pytest.LogCaptureFixture
) -> None:
    processor, outputs = start(LOWEST)
    for row in (make_row(t5=bad), make_row(t5=1.0, t6=1.0, t7=-float("inf"))):
        logits = row[None].clone()
        processor.apply(logits)
        assert torch.equal(logits[0].nan_to_num(), row.nan_to_num())
        outputs[0].append(5)
    processor.update_state(Update(batch_size=0, removed=[0]))
    assert "2 steps unjudged" in reports(log)[-1]


def test_an_escalation_is_asked_for_prompt_and_output() -> None:
    processor, outputs = start(ESCALATE)
    table = Table(7)
    processor.rows.held[0].guard = guard_with(processor, table, ESCALATE)
    outputs[0] += [8, 8]
    processor.apply(make_row(t5=1.0, t9=1.1)[None])
    assert table.asked == [[1, 2, 3, 8, 8]]


@pytest.mark.parametrize("error", [RequestTooLong(expected="less", found="more"), IndexError("x")])
def test_a_failed_escalation_takes_the_lowest_id_and_is_counted(
    error: Exception, log: pytest.LogCaptureFixture
) -> None:
    processor, outputs = start(ESCALATE)
    processor.rows.held[0].guard = guard_with(processor, Table(7, error), ESCALATE)
    logits = make_row(t5=1.0, t9=1.1)[None].clone()
    assert processor.apply(logits)[0].argmax() == 5
    outputs[0].append(5)
    processor.update_state(Update(batch_size=0, removed=[0]))
    assert type(error).__name__ in reports(log)[0]
    assert "1 of 1 steps fired" in reports(log)[-1]
    assert "1 escalations failed" in reports(log)[-1]


def test_a_prompt_of_vectors_cannot_be_escalated_and_does_not_end_the_engine() -> None:
    processor = Version32(make_config(), "cpu", False)
    processor.update_state(Update(batch_size=1, added=[(0, Params(extra_args=ESCALATE), None, [])]))
    assert processor.apply(make_row(t5=1.0, t9=1.1)[None].clone())[0].argmax() == 5


def test_a_model_that_cannot_be_loaded_is_tried_once(tmp_path: Path) -> None:
    oracle = LazyOracle(model=tmp_path / "absent", threads=1)
    errors, depths = [], []
    for _ in range(4):
        with pytest.raises(Exception, match="absent") as refusal:
            oracle.decide([1])
        errors.append(refusal.value)
        depths.append(len(refusal.traceback))
    assert len(set(map(id, errors))) == 1
    assert depths[1] == depths[3], "a failure that is told again must not hold every step it failed"


# What is told.


def test_a_report_has_each_fired_step_and_no_text(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "guard.jsonl"
    processor, outputs = start(LOWEST, additional={"samebits": {"report": str(file)}})
    for row in (make_row(t5=1.0, t9=1.25), make_row(t3=4.0), make_row(t6=1.0, t9=0.75)):
        outputs[0].append(int(processor.apply(row[None].clone())[0].argmax()))
    processor.update_state(Update(batch_size=0, removed=[0]))
    assert outputs[0] == [5, 3, 6]
    (value,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (value["steps"], value["fired"], value["changed"]) == (3, 2, 1)
    assert value["prompt_tokens"] == 3
    first = value["steps_fired"][0]
    assert (first["output_position"], first["token"], first["argmax"]) == (0, 5, 9)
    assert (first["candidates"], first["margins"]) == ([9, 5], [0.0, 0.25])
    assert "2 of 3 steps fired, 1 changed" in reports(log)[-1]


def test_tokens_that_vllm_throws_away_are_not_counted(log: pytest.LogCaptureFixture) -> None:
    processor, outputs = start(LOWEST)
    for _ in range(3):  # A prompt computed in three parts: the last row alone gives a token.
        processor.apply(make_row(t5=1.0, t9=1.25)[None].clone())
    outputs[0].append(5)
    processor.apply(make_row(t5=1.0, t9=1.25)[None].clone())  # Aborted before it was kept.
    processor.update_state(Update(batch_size=0, removed=[0]))
    assert "1 of 1 steps fired" in reports(log)[-1]


def test_a_report_that_cannot_be_written_does_not_end_the_engine(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "guard.jsonl"
    processor, _ = start(LOWEST, additional={"samebits": {"report": str(file)}})
    file.unlink()
    file.mkdir()
    processor.update_state(Update(batch_size=0, removed=[0]))
    assert "no report" in reports(log)[-1]


# Who is where.


@st.composite
def updates(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Draw batch updates in numbers that the test turns into rows that exist."""
    number = st.integers(0, 1000)
    step = st.fixed_dictionaries(
        {
            "removed": st.lists(number, max_size=3),
            "added": st.lists(st.tuples(number, st.booleans()), max_size=4),
            "moved": st.lists(st.tuples(number, number, st.booleans()), max_size=4),
        }
    )
    return [("step", each) for each in draw(st.lists(step, max_size=12))]


@given(updates())
def test_requests_are_followed_through_any_updates(steps: list[tuple[str, Any]]) -> None:
    gone: list[int] = []
    rows: Rows[int] = Rows(gone.append)
    model: list[int | None] = [None] * 8
    expected_gone: list[int] = []
    newcomer = 0

    def leave(row: int) -> None:
        if (value := model[row]) is not None:
            expected_gone.append(value)
        model[row] = None

    for _, step in steps:
        removed = [each % 8 for each in step["removed"]]
        added: list[Any] = []
        for row, is_guarded in step["added"]:
            newcomer += 1
            added.append((row % 8, newcomer if is_guarded else None, None, []))
        moved = [
            (a % 8, b % 8, Direction.SWAP if swap else Direction.UNIDIRECTIONAL)
            for a, b, swap in step["moved"]
            if a % 8 != b % 8
        ]
        for row in removed:
            leave(row)
        for row, value, _, _ in added:
            leave(row)
            model[row] = value
        for a, b, direction in moved:
            if direction is Direction.SWAP:
                model[a], model[b] = model[b], model[a]
            else:
                leave(b)
                model[a], model[b] = None, model[a]
        update = Update(batch_size=8, removed=removed, added=added, moved=moved)
        rows.update(update, lambda value, _prompt, _output: value)
        assert dict(rows) == {r: value for r, value in enumerate(model) if value is not None}
        assert gone == expected_gone


def test_a_row_is_decided_by_the_request_that_was_moved_there() -> None:
    processor, _ = start(LOWEST, None, PRIORITY)
    processor.update_state(
        Update(batch_size=2, removed=[0], moved=[(2, 0, Direction.UNIDIRECTIONAL)])
    )
    processor.update_state(Update(batch_size=2, moved=[(0, 1, Direction.SWAP)]))
    logits = torch.stack([make_row(t5=1.0, t9=1.1)] * 2)
    processor.apply(logits)
    assert int(torch.isfinite(logits[0]).sum()) == VOCAB
    assert logits[1].argmax() == 9


# What vLLM itself says.


def test_neither_samebits_nor_its_guard_imports_vllm_or_torch() -> None:
    code = (
        "import sys, samebits, samebits.remedies.vllm.processor;"
        "sys.exit(any(name in sys.modules for name in ('vllm', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


has_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM takes 3.5 GB: bench/vllm_guard.py runs these tests where it installed it",
)


@has_vllm
def test_the_stand_in_is_like_vllm() -> None:
    import vllm
    from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

    assert [f.name for f in fields(BatchUpdate)] == [f.name for f in fields(Update)]
    assert [each.name for each in MoveDirectionality] == [each.name for each in Direction]
    real = vllm.SamplingParams(temperature=0)
    for each in fields(Params):
        assert getattr(real, each.name) == getattr(Params(), each.name), each.name
    check_sampling(real)
    for name in ("apply", "update_state", "is_argmax_invariant", "validate_params"):
        theirs = inspect.signature(getattr(LogitsProcessor, name)).parameters
        ours = inspect.signature(getattr(GuardProcessor, name)).parameters
        wanted = [p for p in ours.values() if p.default is p.empty]
        assert len(wanted) == len(theirs), name


@has_vllm
def test_both_loaders_of_vllm_take_the_plugin() -> None:
    from vllm.v1.sample.logits_processor import _load_logitsprocs_plugins
    from vllm.v1.worker.gpu.sample.logits_processor.loader import _load_v2_logitsprocs_plugins

    names = [each.name for each in importlib.metadata.entry_points(group="vllm.logits_processors")]
    assert "samebits_guard" in names
    for load in (_load_logitsprocs_plugins, _load_v2_logitsprocs_plugins):
        (cls,) = [each for each in load() if issubclass(each, GuardProcessor)]
        processor = cls(make_config(), object())
        assert processor.add_request(0, Params()) is False
        assert processor.is_argmax_invariant() is False
        assert cls.vllm_version.startswith("0.32.")


@has_vllm
@pytest.mark.parametrize("seed", range(8))
def test_vllms_own_batch_and_sampler_give_each_request_its_own_decision(seed: int) -> None:
    batch, sampler, make_request = open_batch()
    rng = np.random.default_rng(seed)
    requests: dict[str, Any] = {}
    for step in range(40):
        for name in list(requests):
            if rng.random() < 0.2:
                batch.remove_request(name)
                del requests[name]
        while len(requests) < 6 and rng.random() < 0.6:
            name = f"{step}-{len(requests)}-{rng.integers(10**9)}"
            requests[name] = make_request(name, (None, LOWEST, PRIORITY)[rng.integers(3)])
            batch.add_request(requests[name])
        batch.condense()
        if len(requests) > 1 and rng.random() < 0.5:
            batch.swap_states(*rng.choice(len(requests), 2, replace=False).tolist())
        batch.refresh_metadata()
        if not requests:
            continue
        logits = torch.stack([make_row(t5=1.0, t9=1.1, t20=1.2)] * len(requests))
        output = sampler(logits=logits, sampling_metadata=batch.sampling_metadata)
        tokens = output.sampled_token_ids[:, 0].tolist()
        for name, token in zip(batch.req_ids, tokens, strict=True):
            asked = requests[name].sampling_params.extra_args
            assert token == (20 if asked is None else 9 if asked is PRIORITY else 5)
            requests[name].output_token_ids.append(token)


def open_batch() -> tuple[Any, Any, Any]:
    """Open a batch of vLLM's with the guard in it, its sampler, and what makes requests."""
    import vllm
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.sampler import Sampler
    from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

    batch = InputBatch(
        max_num_reqs=6,
        max_model_len=64,
        max_num_batched_tokens=64,
        device=torch.device("cpu"),
        vocab_size=VOCAB,
        block_sizes=[16],
        max_num_blocks_per_req=[4],
        logitsprocs=LogitsProcessors([Version32(make_config(), "cpu", False)]),
    )

    def make_request(name: str, asked: dict[str, Any] | None) -> Any:
        return CachedRequestState(
            req_id=name,
            prompt_token_ids=[1, 2, 3],
            mm_features=[],
            sampling_params=vllm.SamplingParams(temperature=0, extra_args=asked),
            generator=None,
            block_ids=([0],),
            num_computed_tokens=0,
            output_token_ids=[],
        )

    return batch, Sampler(), make_request


# Our engine as the judge.


@pytest.fixture(scope="module")
def engine() -> Engine:
    return make_engine(kv_tokens=256)


def test_logits_do_not_depend_on_what_was_asked_before(engine: Engine) -> None:
    texts = [[5, 6, 7, 8] * 10, [5, 6, 7, 8] * 20, [5, 6], [9] * 70, [5, 6, 7, 8] * 20 + [1]]
    alone = [Contexts(engine.decoder, engine.limits).score_last(each) for each in texts]
    together = Contexts(engine.decoder, engine.limits)
    for _ in range(2):
        for each, expected in zip(texts, alone, strict=True):
            assert together.score_last(each).tobytes() == expected.tobytes()
    assert engine.score(texts[0])[-1].tobytes() == alone[0].tobytes()


def test_contexts_give_pages_back_and_refuse_what_does_not_fit(engine: Engine) -> None:
    contexts = Contexts(engine.decoder, engine.limits)
    for length in (200, 130, 64, 256):
        contexts.score_last([3] * length if length != 130 else [4] * length)
        contexts.pages.check_integrity([lane.pages for lane in contexts.lanes])
    for bad in ([], [-1], [10**6], [3] * 257):
        with pytest.raises(RequestError):
            contexts.score_last(bad)


def test_a_model_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    assert read_refusal(str(folder), 97) == ""
    assert "97 tokens in its files, 98 in vLLM" in read_refusal(str(folder), 98)
