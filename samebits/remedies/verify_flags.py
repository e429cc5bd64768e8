"""Holds what was asked against what is in force, variable by variable.

A count that a library ignores is an error; what nobody reports is said to be unverified.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from samebits.errors import ConfigError
from samebits.lock.probe_child import NOT_REPEATABLE
from samebits.lock.variables import select_variables
from samebits.remedies.verify_flags_evidence import Evidence, gather_evidence

ISAS = ("SSE4.1", "AVX", "AVX2", "AVX2 with", "AVX-512")
"""What oneDNN prints after "Intel ", lowest first, as far as it is told apart here."""
ISA_NAMES = {"SSE41": 0, "AVX": 1, "AVX2": 2, "AVX2_VNNI": 3, "AVX512_CORE": 4}
PLAIN = ("default", "no avx")
"""How PyTorch spells the level below AVX2."""
TRUE = ("1", "true", "on", "yes")


class State(Enum):
    """What became of a setting."""

    IN_FORCE = "in force"
    IGNORED = "ignored"
    UNVERIFIED = "not verified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One setting: asked, found."""

    name: str
    asked: str
    state: State
    found: str
    """What is in force and who says so, or why nobody does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a library reports."""

    by: str
    value: str
    agrees: bool


Judge = Callable[[str, Evidence], Iterator[Seen]]


def verify_flags(interpreter: str, environment: Mapping[str, str]) -> tuple[Check, ...]:
    """Check every variable that steers numbers, and that two starts compute the same.

    Args:
        interpreter: Of the command; empty if no Python runs it: then nothing can be verified.
        environment: All variables of the command.
    Raises:
        ConfigError: The interpreter does not start, or does not say what it should.
    """
    asked = select_variables(environment)
    if not interpreter:
        why = "no Python runs this command; its own report tells"
        return tuple(
            Check(name=name, asked=value, state=State.UNVERIFIED, found=why)
            for name, value in asked.items()
        )
    evidence = gather_evidence(interpreter, environment, tuple(asked))
    checks = [check_variable(name, value, evidence) for name, value in asked.items()]
    return (*checks, check_probe(evidence))


def check_variable(name: str, asked: str, evidence: Evidence) -> Check:
    """Check one variable."""
    reached = select_variables({name: evidence.variables.get(name, "")}).get(name, "unset")
    seen = list(JUDGES[name](asked, evidence)) if name in JUDGES else []
    if against := [one for one in seen if not one.agrees]:
        found = ", ".join(f"{one.value} ({one.by})" for one in against)
        return Check(name=name, asked=asked, state=State.IGNORED, found=f"effective {found}")
    if reached != asked:
        found = f"effective {reached} (changed while Python starts)"
        return Check(name=name, asked=asked, state=State.IGNORED, found=found)
    if seen:
        found = ", ".join(f"{one.value} ({one.by})" for one in seen)
        return Check(name=name, asked=asked, state=State.IN_FORCE, found=found)
    why = "it reached the process; no library there reports it"
    return Check(name=name, asked=asked, state=State.UNVERIFIED, found=why)


def check_probe(evidence: Evidence) -> Check:
    """Check that fixed things come out equal over two starts, and that libraries load at all."""
    digests = evidence.probe.digests
    other = sorted(name for name, value in digests.items() if value == NOT_REPEATABLE)
    found = f"{len(digests) - len(other)} of {len(digests)} equal"
    if other:
        found += f"; not {', '.join(other[:5])}"
    broken = [text for text in evidence.probe.lacks if "cannot be imported" in text]
    found = "; ".join([found, *evidence.probe.lacks])
    state = State.IGNORED if other or broken else State.IN_FORCE
    return Check(name="numeric probe", asked="equal over two starts", state=state, found=found)


def refuse_ignored(checks: Iterable[Check]) -> None:
    """Refuse to go on where something was ignored.

    Raises:
        ConfigError: Names each: asked, effective.
    """
    ignored = [check for check in checks if check.state is State.IGNORED]
    if ignored:
        raise ConfigError(
            expected=", ".join(f"{check.name}={check.asked}" for check in ignored),
            found="; ".join(
                f"{check.name}: asked {check.asked}, {check.found}" for check in ignored
            ),
            remedy="Ask for what can be had (a library may cap its threads at the cores), or give "
            "--set NAME= to leave it out.",
        )


def count_of(asked: str) -> str:
    """Give the count at the outermost level of a variable such as 4,2."""
    return asked.partition(",")[0]


def judge_openmp(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at OpenMP's pools and at PyTorch, which is built on one."""
    torch = evidence.probe.torch
    if torch is not None:
        yield compare("torch", torch.threads, asked)
    yield from judge_pools(asked, evidence, lambda pool: pool.api == "openmp")
    # Libraries report the number asked for, whatever the limit.
    limit = evidence.variables.get("OMP_THREAD_LIMIT", "")
    if limit.isdecimal() and count_of(asked).isdecimal() and int(limit) < int(count_of(asked)):
        yield Seen(by="OMP_THREAD_LIMIT", value=limit, agrees=False)


def judge_mkl(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at MKL, which is a part of PyTorch or a library of its own."""
    torch = evidence.probe.torch
    if torch is not None and torch.mkl_threads is not None:
        yield compare("MKL in torch", torch.mkl_threads, asked)
    yield from judge_pools(asked, evidence, lambda pool: pool.name == "mkl")


def judge_openblas(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at OpenBLAS where it has threads of its own."""
    yield from judge_pools(
        asked, evidence, lambda pool: pool.name == "openblas" and pool.threading == "pthreads"
    )


def judge_pools(asked: str, evidence: Evidence, belongs: Callable[..., bool]) -> Iterator[Seen]:
    """Look at the thread pools that a variable is for."""
    for pool in evidence.probe.pools:
        if belongs(pool):
            yield compare(pool.prefix, pool.threads, asked)


def compare(by: str, threads: int, asked: str) -> Seen:
    """Hold a count against the one asked for."""
    return Seen(by=by, value=str(threads), agrees=str(threads) == count_of(asked))


def judge_capability(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at the level of PyTorch's own kernels."""
    torch = evidence.probe.torch
    if torch is not None:
        level = torch.capability.casefold()
        same = level in PLAIN if asked.casefold() == "default" else level == asked.casefold()
        yield Seen(by="torch", value=torch.capability, agrees=same)


def judge_branch(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at the branch that MKL says it takes."""
    if evidence.mkl_branch:
        wanted = asked.upper().removeprefix("BRANCH=")
        yield Seen(
            by="MKL_VERBOSE", value=evidence.mkl_branch, agrees=evidence.mkl_branch == wanted
        )


def judge_mkl_dynamic(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at whether MKL says that it may change its thread count."""
    if evidence.mkl_dynamic:
        yield judge_switch("MKL_VERBOSE", evidence.mkl_dynamic, asked)


def judge_omp_dynamic(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at whether OpenMP may change its thread count."""
    if evidence.omp_dynamic is not None:
        yield judge_switch("omp_get_dynamic", str(int(bool(evidence.omp_dynamic))), asked)


def judge_switch(by: str, found: str, asked: str) -> Seen:
    """Hold a switch, 0 or 1, against a word."""
    return Seen(by=by, value=found, agrees=(found == "1") == (asked.casefold() in TRUE))


def judge_onednn(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at the instruction set that oneDNN says it uses: at most the one asked for."""
    rank = rank_isa(evidence.onednn_isa.removeprefix("Intel "))
    if rank is not None and asked.upper() in ISA_NAMES:
        agrees = rank <= ISA_NAMES[asked.upper()]
        yield Seen(by="ONEDNN_VERBOSE", value=evidence.onednn_isa, agrees=agrees)


def rank_isa(name: str) -> int | None:
    """Give the rank of an instruction set; None for one that is not known here."""
    if name in ISAS:
        return ISAS.index(name)
    return next((ISAS.index(x) for x in ("AVX2 with", "AVX-512") if name.startswith(x)), None)


def judge_hash(asked: str, evidence: Evidence) -> Iterator[Seen]:
    """Look at the hash of one text in two processes."""
    same = evidence.hashes[0] == evidence.hashes[1]
    value = "equal hashes" if same else "other hashes"
    yield Seen(by="two starts", value=value, agrees=same != (asked == "random"))


JUDGES: Mapping[str, Judge] = {
    "OMP_NUM_THREADS": judge_openmp,
    "MKL_NUM_THREADS": judge_mkl,
    "OPENBLAS_NUM_THREADS": judge_openblas,
    "ATEN_CPU_CAPABILITY": judge_capability,
    "MKL_CBWR": judge_branch,
    "MKL_DYNAMIC": judge_mkl_dynamic,
    "OMP_DYNAMIC": judge_omp_dynamic,
    "ONEDNN_MAX_CPU_ISA": judge_onednn,
    "PYTHONHASHSEED": judge_hash,
}
"""What looks at a variable."""
