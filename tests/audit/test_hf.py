"""What a transformers target refuses, and that the parent needs no torch to say so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.target import TargetFacts
from samebits.audit.targets.hf import HfSettings, list_variables, refuse
from samebits.audit.targets.hf_rows import cut, make_rows
from samebits.audit.targets.local import LocalTarget
from samebits.errors import ConfigError, UnsupportedInput

ROOT = Path(__file__).parents[2]
FACTS = TargetFacts(
    kind="hf",
    name="m",
    in_force={"chat_template": True, "no_compile": "it was not asked for"},
    reports=("text",),
    dtypes=("bfloat16",),
    attentions=("eager",),
    isas=("default",),
)


@pytest.mark.parametrize(
    ("call", "needle"),
    [
        (Call(concurrency=2), "one call at a time"),
        (Call(stagger_ms=20), "one call at a time"),
        (Call(stream=True), "no stream"),
        (Call(logprobs=0), "logits are read directly"),
        (Call(temperature=1.0, batch=8, neighbour_seed=7), "one generator"),
        (Call(n=4, batch=2), "its batch"),
        (Call(batch=2, position=2), "no such row"),
        (Call(kv_cache=False, chunk_tokens=7), "without a cache"),
        (Call(scoring=True, chunk_tokens=7), "one pass"),
        (Call(scoring=True, n=2), "makes nothing"),
    ],
)
def test_a_call_that_cannot_be_is_refused_with_a_reason(call: Call, needle: str) -> None:
    assert needle in refuse(Condition(call=call), FACTS)


@pytest.mark.parametrize(
    ("process", "needle"),
    [
        (Process(isa="avx512"), "avx512 cannot be had"),
        (Process(dtype="int4"), "int4 cannot be had"),
        (Process(attention="flash"), "flash cannot be had"),
        (Process(compile=True), "not asked for"),
    ],
)
def test_a_process_that_cannot_be_is_refused_with_a_reason(process: Process, needle: str) -> None:
    assert needle in refuse(Condition(process=process), FACTS)


@pytest.mark.parametrize(
    "condition",
    [
        Condition(),
        Condition(call=Call(batch=8, position=7, neighbours="more", padding=3)),
        Condition(call=Call(temperature=1.0, seed="42", n=4)),
        Condition(call=Call(clock="2024-02-29T12:00:00")),
        Condition(call=Call(scoring=True, batch=8, padding=2)),
        Condition(process=Process(dtype="bfloat16", attention="eager", isa="default", threads=1)),
    ],
)
def test_what_can_be_brought_about_is_not_refused(condition: Condition) -> None:
    assert refuse(condition, FACTS) == ""


def test_a_clock_is_refused_where_no_template_reads_it() -> None:
    bare = TargetFacts(kind="hf", name="m", in_force={"chat_template": False}, reports=())
    assert "no template" in refuse(Condition(call=Call(clock="2024-02-29T12:00:00")), bare)


def test_an_instruction_set_is_a_variable_of_the_process() -> None:
    process = Process(isa="default", variables=(("MKL_CBWR", "AVX2"),))
    assert list_variables(process) == (("ATEN_CPU_CAPABILITY", "default"), ("MKL_CBWR", "AVX2"))


COMPANIONS = [(1, 2), (3,), (4, 5, 6, 7, 8)]


def test_rows_beside_a_prompt_are_other_texts_of_its_length_and_never_the_same_twice() -> None:
    others = make_rows((9, 9, 9), Call(batch=4, neighbours="others"), COMPANIONS)
    more = make_rows((9, 9, 9), Call(batch=4, position=3, neighbours="more"), COMPANIONS)
    assert others == ((9, 9, 9), (1, 2, 1), (3, 3, 3), (4, 5, 6))
    assert more == ((2, 1, 2), (3, 3, 3), (8, 7, 6), (9, 9, 9))
    assert make_rows((9,), Call(n=2), []) == ((9,), (9,))


def test_other_texts_must_be_there() -> None:
    with pytest.raises(UnsupportedInput, match="other texts"):
        make_rows((9,), Call(batch=2, neighbours="others"), [])


@pytest.mark.parametrize(
    ("call", "passes"),
    [
        (Call(), (5,)),
        (Call(padding=2), (7,)),
        (Call(chunk_tokens=2), (2, 2, 1)),
        (Call(prefix="cold"), (5,)),
        (Call(prefix="warm"), (2, 3)),
        (Call(prefix="warm", padding=4, chunk_tokens=4), (4, 2, 3)),
    ],
)
def test_a_prompt_of_five_tokens_is_read_in_these_passes(
    call: Call, passes: tuple[int, ...]
) -> None:
    assert cut(call, 5) == passes


def test_a_prompt_of_one_token_has_no_warm_half() -> None:
    assert cut(Call(prefix="warm"), 1) == (1,)


def run_python(code: str, path: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PYTHONPATH": path, "PATH": os.defpath}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_parent_imports_neither_torch_nor_the_engine() -> None:
    code = (
        "import sys; from samebits.audit.targets.local import LocalTarget\n"
        "LocalTarget('hf', {}, {})\n"
        "print(sorted({'torch', 'transformers', 'samebits.engine'} & set(sys.modules)))"
    )
    done = run_python(code, str(ROOT))
    assert done.stdout == "[]\n", done.stderr


def test_missing_torch_is_told_with_the_command_that_installs_it(tmp_path: Path) -> None:
    absent = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
    (tmp_path / "torch.py").write_text(absent)
    variables = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "PATH": os.defpath}
    target = LocalTarget("hf", HfSettings(path="m").value(), variables)
    with pytest.raises(ConfigError, match=r'pip install "samebits\[torch\]"'):
        target.open(Process()).__enter__()


def test_a_level_above_the_processor_is_refused_before_a_process_starts() -> None:
    target = LocalTarget("hf", {}, {})
    process = Process(variables=(("OPENBLAS_CORETYPE", "Quantum"),))
    assert "OPENBLAS_CORETYPE" in target.refuse(Condition(process=process), FACTS)
    with pytest.raises(ConfigError, match="OPENBLAS_CORETYPE"):
        target.open(process)
