"""Our engine in worker processes: what acts at the start acts, and the contract does not mind."""

import os
from pathlib import Path

import pytest

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Session
from samebits.audit.targets.engine import EngineSettings
from samebits.audit.targets.engine_facts import CORE_SWITCH, NUMPY_SWITCH
from samebits.audit.targets.local import LocalTarget
from samebits.errors import ConfigError, ModelFileError
from tests.audit.tiny_engine import make_ask
from tests.model.folder_files import write_folder

PROMPTS = tuple(AuditPrompt(id=text, text=text) for text in ("hello", "x=1;y=2;z=3"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tiny model."""
    return write_folder(tmp_path_factory.mktemp("tiny"))


def make_target(folder: Path, **settings: object) -> LocalTarget:
    asked = EngineSettings(model=str(folder), ignore_eos=True, **settings)  # type: ignore[arg-type]
    return LocalTarget("engine", asked.value(), dict(os.environ))


def ask(session: Session, call: Call | None = None) -> list[Answer]:
    return list(session.ask(make_ask(call or Call(), PROMPTS)))


def test_the_contract_gives_the_same_bits_in_every_process(folder: Path) -> None:
    target = make_target(folder, threads=1)
    with target.open(Process()) as session:
        facts, base = session.facts, ask(session)
        probe = session.probe(Condition(), Condition(call=Call(batch=2)), PROMPTS[0])
    assert facts.kind == "engine"
    assert facts.name == str(folder)
    assert facts.in_force["threads"] == 1
    assert probe is not None
    assert all(place.is_equal for place in probe.places)
    processes = [Process(isa=isa) for isa in facts.isas]
    processes += [Process(threads=facts.threads[0]), Process(instance=1)]
    for process in processes:
        assert target.refuse(Condition(process=process), facts) == ""
        with target.open(process) as session:
            assert [a.steps for a in ask(session, Call(batch=3))] == [a.steps for a in base]
            in_force = session.facts.in_force
            assert process.isa in (None, in_force["level"], in_force["kernels"])
            assert process.threads in (None, in_force["threads"])


def test_an_ordinary_arithmetic_obeys_the_variables_it_offers(folder: Path) -> None:
    target = make_target(folder, arithmetic="plain-f32", threads=1)
    with target.open(Process()) as session:
        facts, base = session.facts, ask(session)
    wanted = (CORE_SWITCH, NUMPY_SWITCH)
    offered = [setting for setting in facts.variables if setting[0][0] in wanted]
    if not offered:
        pytest.skip("NumPy has one set of kernels here")
    for setting in offered[:1] + offered[-1:]:
        process = Process(variables=setting)
        assert target.refuse(Condition(process=process), facts) == ""
        with target.open(process) as session:
            assert session.facts.in_force["threads"] == 1
            is_blas = setting[0][0] == CORE_SWITCH
            assert not is_blas or str(session.facts.in_force["blas"]).endswith(setting[0][1])
            assert [a.steps for a in ask(session)] != [a.steps for a in base]


def test_another_arithmetic_is_another_process(folder: Path) -> None:
    target = make_target(folder, arithmetic="plain-f32", threads=1)
    with target.open(Process(dtype="plain-f64")) as session:
        assert session.facts.in_force["arithmetic"] == "plain-f64"
        assert all(answer.error is None for answer in ask(session))


def test_what_the_engine_refuses_comes_back_as_what_it_was(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_bytes(b"not a model")
    with pytest.raises(ModelFileError), make_target(tmp_path / "no.gguf").open(Process()):
        pass
    with (
        pytest.raises(ConfigError, match="plain-f16"),
        make_target(folder, arithmetic="plain-f16").open(Process()),
    ):
        pass
    plain = make_target(folder, arithmetic="plain-f32")
    with pytest.raises(ConfigError, match="sb1 for an ISA level"), plain.open(Process(isa="avx2")):
        pass
