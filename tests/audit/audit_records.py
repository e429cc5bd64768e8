"""Records for tests: small headers, answers and files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from samebits.audit.observation import Answer, Observation
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import AuditRecord, Header
from samebits.audit.record_reader import read_record
from samebits.audit.record_writer import RecordWriter
from samebits.audit.target import TargetFacts
from samebits.lock.facts import MachineFacts, ThreadPool

PROMPTS = tuple(AuditPrompt(id=f"p{i}", text=f"Count to {i}.") for i in range(4))


def make_pool(**changes: Any) -> ThreadPool:
    fields: dict[str, Any] = {
        "api": "blas",
        "name": "openblas",
        "prefix": "libopenblas",
        "version": "0.3.30",
        "architecture": "Haswell",
        "threading": "pthreads",
        "threads": 2,
    }
    return ThreadPool(**{**fields, **changes})


def make_machine(**changes: Any) -> MachineFacts:
    fields: dict[str, Any] = {
        "processor": "Some Processor (6 85 7)",
        "architecture": "x86_64",
        "isa": ("avx2", "fma"),
        "cores": 2,
        "system": "Linux",
        "kernel": "6.1.0",
        "libc": "glibc 2.36",
        "python": "CPython 3.11.7",
        "packages": {"numpy": "2.4.6", "torch": "2.13.0+cpu"},
        "pools": (make_pool(),),
        "variables": {"OMP_NUM_THREADS": "2"},
    }
    return MachineFacts(**{**fields, **changes})


def make_facts(**changes: Any) -> TargetFacts:
    fields: dict[str, Any] = {
        "kind": "stub",
        "name": "a model",
        "in_force": {"dtype": "bfloat16", "threads": 2},
        "reports": ("text", "token_ids", "steps"),
        "variables": ((("MKL_CBWR", "AVX2"),),),
    }
    return TargetFacts(**{**fields, **changes})


def make_header(**changes: Any) -> Header:
    fields: dict[str, Any] = {
        "version": "0.1",
        "nonce": "00ff",
        "asked": {"max_tokens": 4, "need": "tokens"},
        "target": make_facts(),
        "machine": make_machine(),
        "prompts": PROMPTS,
        "axes": ("repeat", "batch"),
        "started_at": "2026-11-29T19:00:00+00:00",
    }
    return Header(**{**fields, **changes})


def make_answer(letters: str, bits: str | None = None, **changes: Any) -> Answer:
    """Make an answer whose tokens are letters, and the bits of each step another letter."""
    fields: dict[str, Any] = {
        "text": letters,
        "token_ids": tuple(map(ord, letters)),
        "steps": tuple(letters if bits is None else bits),
    }
    return Answer(**{**fields, **changes})


def make_observation(answer: Answer, **changes: Any) -> Observation:
    fields: dict[str, Any] = {
        "condition": "{}",
        "prompt": "p0",
        "round": 0,
        "repeat": 0,
        "attempt": 0,
        "session": 0,
        "answer": answer,
    }
    return Observation(**{**fields, **changes})


def write_record(path: Path, num: int = 3, header: Header | None = None) -> Path:
    """Write a record of a header and some observations."""
    with RecordWriter.create(path, header or make_header()) as writer:
        for i in range(num):
            writer.append(make_observation(make_answer("abc"), repeat=i))
    return path


def record_of(
    rows: dict[str, Sequence[Answer]], condition: str = "{}", **changes: Any
) -> AuditRecord:
    """Make a record of answers by prompt."""
    seen = tuple(
        make_observation(answer, prompt=prompt, repeat=i, condition=condition)
        for prompt, answers in rows.items()
        for i, answer in enumerate(answers)
    )
    return AuditRecord(header=make_header(**changes), observations=seen, digest="sha256:00")


def append_and_read(path: Path, *items: Any) -> AuditRecord:
    """Write a record of these lines and read it."""
    with RecordWriter.create(path, make_header()) as writer:
        for item in items:
            writer.append(item)
    return read_record(path)
