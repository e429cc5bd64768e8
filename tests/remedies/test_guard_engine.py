"""Our engine as an oracle, and the guard's names without PyTorch."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import samebits
from samebits.engine import Engine
from samebits.errors import ConfigError, RequestError
from samebits.remedies.guard import Escalate, Guard
from samebits.remedies.guard.engine_oracle import AskEngine
from tests.audit.tiny_hf import write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.load(folder, kv_tokens=512, chunk_tokens=8) as engine:
        yield engine


IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]


def test_the_engine_answers_with_the_bits_of_its_own_score(engine: Engine, folder: Path) -> None:
    oracle = AskEngine(engine, folder)
    assert np.array_equal(oracle.decide(IDS), engine.score(IDS)[-1])
    assert oracle.describe() == "our engine, sb1"
    engine.check_integrity()


def test_the_engine_decides_as_it_generates(engine: Engine, folder: Path) -> None:
    oracle = AskEngine(engine, folder)
    guard = Guard(epsilon=1e6, action=Escalate(oracle))
    params = samebits.SamplingParams(temperature=0, max_tokens=1)
    wanted = engine.generate([IDS], params)[0].outputs[0].token_ids[0]
    moved = np.zeros(engine.decoder.config.vocab_size)
    decision = guard.decide(moved, IDS)
    assert decision.token == wanted
    assert decision.keys_values is None


def test_an_engine_with_another_tokenizer_is_refused(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_text(
        (folder / "tokenizer.json").read_text(encoding="utf-8") + "\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="the guarded model's tokenizer"):
        AskEngine(engine, tmp_path)


def test_an_engine_whose_bits_depend_on_how_a_text_is_cut_is_refused(folder: Path) -> None:
    with (
        Engine.load(folder, kv_tokens=512, arithmetic="plain-f32") as plain,
        pytest.raises(ConfigError, match="an engine under sb1"),
    ):
        AskEngine(plain, folder)


def test_what_was_asked_before_moves_no_bit(engine: Engine, folder: Path) -> None:
    oracle = AskEngine(engine, folder)
    growing = [oracle.decide(IDS[:end]).tobytes() for end in range(1, len(IDS) + 1)]
    assert growing == [row.tobytes() for row in engine.score(IDS)]
    assert oracle.decide(IDS[:3]).tobytes() == growing[2]
    engine.check_integrity()


def test_ids_that_the_engine_does_not_know_are_refused(engine: Engine, folder: Path) -> None:
    with pytest.raises(RequestError):
        AskEngine(engine, folder).decide([10_000])


def test_the_core_works_without_pytorch_and_the_rest_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy, samebits, samebits.remedies.guard as guard\n"
        "print(samebits.Guard(epsilon=0).decide(numpy.array([1.0, 2.0]), []).token)\n"
        "try:\n    guard.GuardProcessor\n"
        "except samebits.ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    token, refusal = done.stdout.splitlines()
    assert token == "1"
    assert 'pip install "samebits[torch]"' in refusal
