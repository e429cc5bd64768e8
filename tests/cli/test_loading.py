"""What the command line says of the kernels it got."""

from samebits.cli.loading import explain_choice
from samebits.numerics.choice import Candidate, Choice


def make_choice(kernels: str, *candidates: Candidate, has_library: bool = True) -> Choice:
    return Choice(
        kernels=kernels, level=None, threads=1, has_library=has_library, candidates=candidates
    )


def test_nothing_is_said_of_kernels_that_passed() -> None:
    passed = Candidate(name="native/avx2", failures=(), seconds=None)
    assert explain_choice(make_choice("native", passed)) == []


def test_a_level_that_failed_its_self_test_is_named() -> None:
    failed = Candidate(name="native/avx512", failures=("linear",), seconds=None)
    passed = Candidate(name="native/avx2", failures=(), seconds=None)
    [line] = explain_choice(make_choice("native", failed, passed))
    assert "native/avx512" in line and "linear" in line


def test_an_installation_without_compiled_kernels_says_so_once() -> None:
    passed = Candidate(name="portable", failures=(), seconds=None)
    [line] = explain_choice(make_choice("portable", passed, has_library=False))
    assert "no compiled kernels" in line and "gcc or clang" in line
