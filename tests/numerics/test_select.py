"""Only kernels that pass the self-test are chosen, and a wish that cannot be met is refused."""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from samebits.errors import ConfigError, InvariantBroken
from samebits.numerics import portable, reference, select, selftest
from samebits.numerics.choice import Candidate
from samebits.numerics.native.kernels import LEVELS, NativeKernels, list_levels
from samebits.numerics.order_free import OrderFree
from samebits.numerics.select import describe_choice, select_arithmetic

BEST, *LOWER = list_levels()


def fail(*names: str) -> Callable[[Any], tuple[str, ...]]:
    """Make a self-test that fails the kernel sets named: a level, portable or reference."""

    def check(kernels: Any) -> tuple[str, ...]:
        is_module = isinstance(kernels, ModuleType)
        name = kernels.__name__.rsplit(".")[-1] if is_module else kernels.level
        return ("extreme sums, 16-bit weights",) if name in names else ()

    return check


@pytest.fixture
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every candidate take equally long."""
    monkeypatch.setattr(select, "time_kernels", lambda sets: [1.0] * len(sets))


def outcomes(choice: Any) -> dict[str, str]:
    return {candidate.name: candidate.outcome for candidate in choice.candidates}


@pytest.mark.usefixtures("no_clock")
def test_the_best_level_is_chosen_and_everything_considered_is_told() -> None:
    choice = describe_choice(select_arithmetic("sb1", threads=2))
    assert (choice.kernels, choice.level, choice.threads) == ("native", BEST, 2)
    assert choice.has_library
    assert outcomes(choice) == {f"native/{level}": "passed" for level in list_levels()}


@pytest.mark.usefixtures("no_clock")
def test_a_level_that_fails_is_named_and_the_next_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(select, "check_kernels", fail(BEST))
    choice = describe_choice(select_arithmetic("sb1"))
    assert choice.level == LOWER[0]
    assert outcomes(choice)[f"native/{BEST}"] == "failed: extreme sums, 16-bit weights"


def test_portable_kernels_stand_in_if_no_level_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "check_kernels", fail(*LEVELS))
    arithmetic = select_arithmetic("sb1")
    assert isinstance(arithmetic, OrderFree) and arithmetic.kernels is portable
    assert list(outcomes(describe_choice(arithmetic)).values())[-1] == "passed"


def test_nothing_is_chosen_if_nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "check_kernels", fail(*LEVELS, "portable"))
    with pytest.raises(InvariantBroken) as refusal:
        select_arithmetic("sb1")
    for name in (f"native/{BEST}", "portable", "extreme sums, 16-bit weights"):
        assert name in refusal.value.found


@pytest.mark.parametrize("kernels", ["native", "portable", "reference"])
def test_forced_kernels_that_fail_are_refused_not_replaced(
    monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    monkeypatch.setattr(select, "check_kernels", fail(*LEVELS, "portable", "reference"))
    with pytest.raises(InvariantBroken, match=kernels):
        select_arithmetic("sb1", kernels=kernels)


def test_a_thread_in_a_strange_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "check_thread", lambda: ("this thread flushes results to zero",))
    with pytest.raises(ConfigError, match="flushes results to zero"):
        select_arithmetic("sb1")


@pytest.mark.parametrize(("lower_s", "expected"), [(0.5, 1), (0.79, 1), (0.81, 0), (1.0, 0)])
def test_a_lower_level_is_chosen_only_if_it_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, lower_s: float, expected: int
) -> None:
    monkeypatch.setattr(
        select, "time_kernels", lambda sets: [1.0, lower_s] + [5.0] * (len(sets) - 2)
    )
    choice = describe_choice(select_arithmetic("sb1"))
    assert choice.level == list_levels()[expected]
    assert [c.seconds for c in choice.candidates][:2] == [1.0, lower_s]


def test_the_probe_times_every_candidate() -> None:
    sets: list[Any] = [NativeKernels(level=level, threads=1) for level in list_levels()]
    assert all(0 < seconds < 1 for seconds in select.time_kernels(sets))


@pytest.mark.parametrize("kernels", ["auto", "native"])
def test_a_cap_keeps_higher_levels_out(kernels: str) -> None:
    for level in list_levels():
        choice = describe_choice(select_arithmetic("sb1", max_isa=level, kernels=kernels))
        names = list(outcomes(choice))
        below = list_levels()[list_levels().index(level) :]
        assert names == [f"native/{name}" for name in below]
    assert describe_choice(select_arithmetic("sb1", max_isa="generic")).level == "generic"


def test_a_cap_above_the_processor_is_no_wish() -> None:
    assert outcomes(describe_choice(select_arithmetic("sb1", max_isa=LEVELS[0])))


@pytest.mark.parametrize(
    ("kernels", "expected"), [("portable", portable), ("reference", reference)]
)
def test_kernels_can_be_forced(kernels: str, expected: Any) -> None:
    arithmetic = select_arithmetic("sb1", kernels=kernels, threads=1)
    assert isinstance(arithmetic, OrderFree) and arithmetic.kernels is expected
    choice = describe_choice(arithmetic)
    assert (choice.kernels, choice.level) == (kernels, None)
    assert choice.candidates == (Candidate(name=kernels, failures=(), seconds=None),)


def test_without_a_library_auto_is_portable_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "find_library", lambda: None)
    choice = describe_choice(select_arithmetic("sb1"))
    assert (choice.kernels, choice.has_library) == ("portable", False)


def test_without_a_library_native_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from samebits.numerics.native import kernels

    kernels.load_library.cache_clear()
    monkeypatch.setattr(kernels, "find_library", lambda: None)
    with pytest.raises(ConfigError, match="compiled kernels"):
        select_arithmetic("sb1", kernels="native")


@pytest.mark.parametrize("name", ["plain-f32", "plain-bf16", "plain-f64"])
def test_plain_arithmetic_is_selected_by_name(name: str) -> None:
    arithmetic = select_arithmetic(name, threads=2)
    assert arithmetic.name == name
    choice = describe_choice(arithmetic)
    assert (choice.kernels, choice.level, choice.threads) == ("numpy", None, 2)


def test_threads_default_to_the_processors_this_process_may_use() -> None:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert select_arithmetic("sb1").threads == usable


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_thread_count_is_in_force(threads: int) -> None:
    assert select_arithmetic("sb1", threads=threads, kernels="native").threads == threads


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"name": "sb2"}, "sb1, plain-f64, plain-f32, plain-bf16"),
        ({"name": "sb1", "kernels": "cuda"}, "auto, native, portable, reference"),
        ({"name": "sb1", "max_isa": "avx1024"}, "avx512vnni, avx512, avx2, generic"),
        ({"name": "sb1", "max_isa": "wide"}, "avx512vnni, avx512, avx2, generic"),
        ({"name": "sb1", "threads": 0}, "1 to 1024 threads"),
        ({"name": "plain-f32", "threads": 5000}, "1 to 1024 threads"),
        ({"name": "sb1", "bits": 4}, "16 or 8"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_with_what_there_is(
    wish: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        select_arithmetic(**wish)


def test_chosen_kernels_may_be_swapped_and_the_description_follows() -> None:
    arithmetic = select_arithmetic("sb1", threads=2)
    assert isinstance(arithmetic, OrderFree)
    arithmetic.kernels = NativeKernels(level="generic", threads=1)
    choice = describe_choice(arithmetic)
    assert (choice.level, choice.threads) == ("generic", 1)
