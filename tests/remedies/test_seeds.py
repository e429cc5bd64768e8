"""Seeding repeats every global generator, restores exactly what was there, and tells the rest."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from samebits.errors import ConfigError
from samebits.remedies.seeds import LARGEST_SEED, check_seed, seed_everything, seeded


def read_everything() -> dict[str, Any]:
    """The state of all that a seed touches, as values that can be compared."""
    inductor: Any = __import__("torch._inductor.config").__dict__["_inductor"].config
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, np.asarray(keys).tolist(), *rest),
        "torch": torch.get_rng_state().tolist(),
        "algorithms": torch.are_deterministic_algorithms_enabled(),
        "warn": torch.is_deterministic_algorithms_warn_only_enabled(),
        "deterministic": torch.backends.cudnn.deterministic,
        "benchmark": torch.backends.cudnn.benchmark,
        "inductor": inductor.deterministic,
    }


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.normal()), float(torch.randn(()))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave the process as it was, by a way that is not the tested one."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.benchmark = False


@pytest.mark.parametrize("seed", [0, 1, LARGEST_SEED])
def test_a_seed_repeats_every_generator(seed: int) -> None:
    seed_everything(seed)
    one = draw()
    draw()
    seed_everything(seed)
    assert draw() == one


def test_the_draws_are_those_of_each_library_seeded_by_hand() -> None:
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    by_hand = draw()
    seed_everything(5)
    assert draw() == by_hand


def test_algorithms_are_demanded_and_cudnn_is_fixed() -> None:
    torch.backends.cudnn.benchmark = True
    seed_everything(1)
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark


def test_strict_raises_where_an_operation_has_no_deterministic_form() -> None:
    values, places = torch.zeros(4), torch.tensor([0, 0])
    seed_everything(1)
    with pytest.raises(RuntimeError, match="put_"):
        values.put_(places, torch.tensor([1.0, 2.0]))
    seed_everything(1, strict=False)
    with pytest.warns(UserWarning, match="put_"):
        values.put_(places, torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("seed", [True, False, -1, LARGEST_SEED + 1, 1.0, "1", None])
def test_what_is_no_seed_is_refused_by_one_rule(seed: Any) -> None:
    before = read_everything()
    for use in (seed_everything, seeded):
        with pytest.raises(ConfigError, match="0 to 4294967295"):
            use(seed)
    assert read_everything() == before


def test_an_integer_of_numpy_is_a_seed() -> None:
    assert check_seed(np.int64(7)) == 7


def change_everything() -> None:
    draw()
    random.seed("x")
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = False


@pytest.mark.parametrize("inductor", [False, True])
def test_a_block_restores_everything_exactly(inductor: bool) -> None:
    np.random.normal()  # leaves half a pair of normals behind, which belongs to the state
    torch.backends.cudnn.benchmark = True
    config: Any = __import__("torch._inductor.config").__dict__["_inductor"].config
    config.deterministic = inductor
    before = read_everything()
    with seeded(3):
        change_everything()
        assert read_everything() != before
    assert read_everything() == before
    config.deterministic = False


def test_a_block_restores_after_an_exception() -> None:
    before = read_everything()
    with pytest.raises(ZeroDivisionError), seeded(3):
        change_everything()
        raise ZeroDivisionError
    assert read_everything() == before


def test_blocks_nest_and_the_outer_stream_goes_on_as_if_alone() -> None:
    with seeded(3):
        alone = [draw(), draw()]
    with seeded(3):
        first = draw()
        with seeded(4):
            inner = draw()
        second = draw()
    assert [first, second] == alone
    with seeded(4):
        assert draw() == inner


def test_one_block_can_be_entered_again_inside_itself() -> None:
    before = read_everything()
    block = seeded(3)
    with block:
        one = draw()
        with block:
            assert draw() == one
        draw()
    assert read_everything() == before


def test_a_block_decorates_a_function() -> None:
    decorated: Callable[[], tuple[float, float, float]] = seeded(8)(draw)
    assert decorated() == decorated()


def test_a_variable_is_written_only_where_it_was_handed_over() -> None:
    report = seed_everything(1)
    assert "CUBLAS_WORKSPACE_CONFIG" not in report.as_dict()["set"]
    variables: dict[str, str] = {}
    with seeded(1, torch=False, variables=variables):
        assert variables == {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    assert variables == {}


def test_a_variable_that_is_there_stays() -> None:
    variables = {"CUBLAS_WORKSPACE_CONFIG": ":0:0"}
    report = seed_everything(1, torch=False, variables=variables)
    assert variables == {"CUBLAS_WORKSPACE_CONFIG": ":0:0"}
    assert ":0:0" in report.as_dict()["not_set"]["CUBLAS_WORKSPACE_CONFIG"]


def test_the_report_tells_everything_in_values_and_in_sentences() -> None:
    report = seed_everything(0)
    values = report.as_dict()
    assert values["seed"] == 0
    assert values["set"]["random"] == values["set"]["numpy.random"] == "0"
    assert values["set"]["torch.use_deterministic_algorithms"] == "True"
    told = " ".join(report.sentences())
    assert str(report).splitlines() == list(report.sentences())
    for name in (*values["set"], *values["not_set"], "DataLoader", "Threads"):
        assert name in told


def test_a_bit_generator_that_takes_no_seed_is_named_not_hidden() -> None:
    script = (
        "import numpy as np; from samebits.remedies.seeds import seed_everything\n"
        "np.random.set_bit_generator(np.random.PCG64(1))\n"
        "print(seed_everything(1).as_dict()['not_set']['numpy.random'])"
    )
    assert "cannot be seeded again" in run_script(script)


def run_script(script: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), **variables},
    )
    return done.stdout


REPORT = (
    "import sys; from samebits.remedies.seeds import seed_everything\n"
    "report = seed_everything(1).as_dict()\n"
    "print('torch' in sys.modules, report['not_set'])"
)


def test_torch_is_not_imported_unasked_and_the_report_says_so() -> None:
    told = run_script(REPORT)
    assert told.startswith("False")
    assert "call this after import torch" in told


def test_hashes_are_reported_unless_python_was_started_without_their_randomness() -> None:
    assert "PYTHONHASHSEED" in run_script(REPORT)
    assert "PYTHONHASHSEED" not in run_script(REPORT, PYTHONHASHSEED="0")


def test_without_torch_asking_for_it_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from samebits.errors import ConfigError\n"
        "from samebits.remedies.seeds import seed_everything\n"
        "seed_everything(1)\n"
        "try: seed_everything(1, torch=True)\n"
        "except ConfigError as error: print(error)"
    )
    assert 'pip install "samebits[torch]"' in run_script(script)


def test_a_body_that_runs_after_its_call_is_no_function_to_decorate() -> None:
    def draws() -> Iterator[float]:
        yield random.random()

    async def late_draw() -> float:
        return random.random()

    for late in (draws, late_draw):
        with pytest.raises(ConfigError, match="a generator or coroutine"):
            seeded(1)(late)
