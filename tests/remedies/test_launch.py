"""A command is read without a change, and its environment planned, or refused by name."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from samebits.errors import ConfigError
from samebits.remedies.flags.engines import find_engine
from samebits.remedies.flags.table import Device
from samebits.remedies.launch_command import (
    Command,
    find_interpreter,
    guess_engine,
    list_options,
    read_command,
)
from samebits.remedies.launch_plan import Asked, Plan, make_plan
from samebits.remedies.launch_words import list_plan

PATH = str(Path(sys.executable).parent)


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("python script.py", "pytorch"),
        ("python3.11 -X utf8 -W error script.py -m vllm", "pytorch"),
        ("/opt/env/bin/python -m vllm.entrypoints.openai.api_server", "vllm"),
        ("python -u -X utf8 -m vllm.entrypoints.cli.main serve x", "vllm"),
        ("vllm serve x", "vllm"),
        ("python3 -m sglang.launch_server --model-path x", "sglang"),
        ("python -m torch.distributed.run x.py", "pytorch"),
        ("python -c pass -m vllm", "pytorch"),
        ("python -cpass -m vllm", "pytorch"),
        ("python -um vllm.entrypoints.openai.api_server", "vllm"),
        ("python -mvllm.entrypoints.openai.api_server", "vllm"),
        ("python -Ximporttime script.py", "pytorch"),
        ("trtllm-serve x", "tensorrt-llm"),
        ("./build/bin/llama-server -m x.gguf", "llama.cpp"),
        ("python -m llama_cpp.server", "llama.cpp"),
        ("torchrun x.py", "pytorch"),
        ("bash run.sh", ""),
        ("pythonic x", ""),
    ],
)
def test_the_engine_is_guessed_from_the_command(text: str, engine: str) -> None:
    assert guess_engine(text.split()) == engine


def test_options_are_read_with_their_values() -> None:
    text = "serve --seed 1 --dtype=bfloat16 --enforce-eager -tp 2 --max_len -1 x --seed 2"
    assert dict(list_options(text.split())) == {
        "seed": "2",
        "dtype": "bfloat16",
        "enforce-eager": "",
        "tp": "2",
        "max-len": "-1",
    }


def write_script(folder: Path, text: str) -> str:
    path = folder / "tool"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "first",
    [
        f"#!{sys.executable}\n",
        f"#!/usr/bin/env {Path(sys.executable).name}\n",
        f"#!/usr/bin/env -S {Path(sys.executable).name} -u\n",
        f'#!/bin/sh\n\'\'\'exec\' "{sys.executable}" "$0" "$@"\n',
    ],
    ids=["path", "env", "env with options", "long path"],
)
def test_the_interpreter_of_a_script_is_read_from_its_first_lines(
    tmp_path: Path, first: str
) -> None:
    assert find_interpreter(write_script(tmp_path, first), PATH) == sys.executable


def test_other_programs_have_no_interpreter(tmp_path: Path) -> None:
    assert find_interpreter(write_script(tmp_path, "#!/bin/sh\necho\n"), PATH) == ""
    assert find_interpreter("/bin/ls", PATH) == ""


@pytest.mark.parametrize("words", [[], [""], ["no-such-program"], ["/no/such/program"]])
def test_a_command_that_cannot_be_run_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        read_command(words, {"PATH": PATH})


def make_command(text: str) -> Command:
    words = tuple(text.split())
    return Command(
        words=words,
        program=f"/bin/{words[0]}",
        engine=guess_engine(words),
        options=dict(list_options(words[1:])),
        interpreter="",
    )


def plan(
    text: str,
    variables: Mapping[str, str] | None = None,
    *,
    threads: int = 2,
    device: Device = Device.CPU,
    add_options: bool = False,
    engine: str = "",
    settings: Mapping[str, str] | None = None,
) -> Plan:
    command = make_command(text)
    asked = Asked(device=device, threads=threads, settings=settings or {}, add_options=add_options)
    return make_plan(command, find_engine(engine or command.engine), variables or {}, asked)


def test_threads_are_fixed_for_every_library_and_the_rest_of_the_environment_stays() -> None:
    planned = plan("python x.py", {"HOME": "/home/x", "EMPTY": "", "OMP_NUM_THREADS": ""})
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        assert planned.environment[name] == "2"
    assert planned.environment["HOME"] == "/home/x"
    assert planned.environment["PYTHONHASHSEED"] == "0"
    assert planned.words == ("python", "x.py")


def test_variables_that_say_the_same_are_kept() -> None:
    variables = {"OMP_NUM_THREADS": "2", "OMP_DYNAMIC": "false", "PYTHONHASHSEED": "7"}
    planned = plan("python x.py", variables)
    assert planned.kept == variables
    assert not planned.added.keys() & variables.keys()


def test_variables_that_say_otherwise_are_refused_all_by_name() -> None:
    variables = {"OMP_NUM_THREADS": "8", "MKL_DYNAMIC": "true", "PYTHONHASHSEED": "random"}
    with pytest.raises(ConfigError) as refused:
        plan("python x.py", variables)
    for part in ("OMP_NUM_THREADS=8", "MKL_DYNAMIC=true", "PYTHONHASHSEED=random", "--set"):
        assert part in str(refused.value)


def test_set_decides_explicitly_and_an_empty_value_takes_a_variable_away() -> None:
    settings = {"OMP_NUM_THREADS": "4", "PYTHONHASHSEED": ""}
    planned = plan("python x.py", {"OMP_NUM_THREADS": "8"}, settings=settings)
    assert planned.environment["OMP_NUM_THREADS"] == "4"
    assert "PYTHONHASHSEED" not in planned.environment


@pytest.mark.parametrize(
    ("name", "value"), [("API_KEY", "x"), ("PATH", "/x"), ("MKL_CBWR", "a secret thing")]
)
def test_set_takes_no_other_variables_and_no_other_values(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan("python x.py", settings={name: value})
    assert name in str(refused.value)


def test_a_combination_known_to_leak_is_refused_with_source_and_way_out() -> None:
    with pytest.raises(ConfigError) as refused:
        plan("vllm serve x --attention-backend FLASHINFER", device=Device.GPU)
    text = str(refused.value)
    assert "batch-invariant-with-other-backend" in text
    assert "https://github.com/vllm-project/vllm" in text
    assert "TRITON_ATTN" in text


def test_the_mode_of_a_gpu_is_not_set_on_a_processor() -> None:
    assert "VLLM_BATCH_INVARIANT" in plan("vllm serve x", device=Device.GPU).environment
    assert "VLLM_BATCH_INVARIANT" not in plan("vllm serve x").environment


def test_options_are_added_only_if_asked_for_and_always_named() -> None:
    text = "vllm serve x --seed 5"
    planned = plan(text)
    assert planned.words == tuple(text.split())
    assert [flag.name for flag in planned.options] == ["--generation-config"]
    assert [(flag.name, value) for flag, value in planned.differing] == [("--seed", "5")]
    added = plan(text, add_options=True)
    assert added.words == (*text.split(), "--generation-config", "vllm")


def test_an_option_that_is_added_counts_when_leaks_are_looked_for() -> None:
    text = "python -m sglang.launch_server --enable-deterministic-inference"
    with pytest.raises(ConfigError, match="radix"):
        plan(text, device=Device.GPU)
    added = plan(text, device=Device.GPU, add_options=True)
    assert added.words[-1] == "--disable-radix-cache"


def test_flags_of_one_variable_are_joined_with_those_that_are_there() -> None:
    mine = {"XLA_FLAGS": "--xla_dump_to=/x --xla_gpu_autotune_level=0"}
    planned = plan("python x.py", mine, engine="jax", device=Device.GPU)
    assert planned.environment["XLA_FLAGS"].split() == [
        "--xla_dump_to=/x",
        "--xla_gpu_autotune_level=0",
        "--xla_gpu_deterministic_ops=true",
        "--xla_allow_excess_precision=false",
    ]
    other = {"XLA_FLAGS": "--xla_gpu_autotune_level=4"}
    with pytest.raises(ConfigError, match="autotune_level=4"):
        plan("python x.py", other, engine="jax", device=Device.GPU)


def test_a_seed_that_a_server_does_not_read_is_warned_of() -> None:
    lines = "\n".join(list_plan(plan("vllm serve x --sampling-seed 3"), is_guessed=True))
    assert "sampling-seed looks like a seed" in lines
    assert "looks like" not in "\n".join(list_plan(plan("vllm serve x --seed 3"), is_guessed=True))


def test_no_line_shows_other_variables_or_the_arguments_of_the_command() -> None:
    secret = "hunter2"
    variables = {"API_KEY": secret, "XLA_FLAGS": f"--xla_dump_to=/{secret}"}
    planned = plan(f"vllm serve x --api-key {secret}", variables)
    assert secret not in "\n".join(list_plan(planned, is_guessed=True))


def test_zero_threads_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        plan("python x.py", threads=0)
