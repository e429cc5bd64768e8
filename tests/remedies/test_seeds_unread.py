"""Options that look like seeds and are read by nobody are found, at any depth, with advice."""

import pytest

from samebits.remedies.seeds_unread import SEED_NAMES, check_seeds, find_unread_seeds


@pytest.mark.parametrize(
    "name",
    ["seed", "random_seed", "rng_seed", "manual_seed", "data-seed", "--sampling-seed", "Seed",
     "generator", "random_state", "rollout_seed", "seed_base"],
)  # fmt: skip
def test_names_like_a_seed_are_found(name: str) -> None:
    assert [item.path for item in find_unread_seeds({name: 1}, ())] == [name]


@pytest.mark.parametrize("name", ["seedling", "temperature", "proceed", "regenerator_path", "n"])
def test_other_names_are_not(name: str) -> None:
    assert find_unread_seeds({name: 1}, ()) == ()


def test_a_seed_in_a_nested_configuration_is_named_by_its_path() -> None:
    config = {
        "seed": 1,
        "rollout": {"sampling": [{"seed": 2}, {"top_p": 1.0}], "engine": {"random_seed": 3}},
    }
    found = find_unread_seeds(config, ("rollout.engine.random_seed",))
    assert [(item.path, item.value) for item in found] == [
        ("seed", "1"),
        ("rollout.sampling[0].seed", "2"),
    ]


def test_a_name_that_is_read_is_no_finding_however_it_is_spelt() -> None:
    assert find_unread_seeds({"random-seed": 0, "a": {"random_seed": 0}}, ("random_seed",)) == ()


def test_zero_and_none_are_found_too_and_texts_are_not_shown() -> None:
    found = find_unread_seeds({"seed": 0, "rng_seed": None, "generator": "private"}, ())
    assert [item.value for item in found] == ["0", "None", "str"]


@pytest.mark.parametrize(
    ("engine", "place", "options", "advice"),
    [
        ("sglang", "request", {"seed": 1}, "sampling_seed"),
        ("sglang", "server", {"seed": 1}, "--random-seed"),
        ("vllm", "request", {"random_seed": 1}, "seed"),
        ("vllm", "server", {"sampling_seed": 1}, "--seed"),
        ("llama.cpp", "request", {"random_seed": 1}, "-1"),
        ("openai", "request", {"random_seed": 1}, "best effort"),
        ("pytorch", "call", {"seed": 1}, "seed_everything"),
    ],
)
def test_an_engine_is_told_by_the_name_that_it_reads(
    engine: str, place: str, options: dict[str, object], advice: str
) -> None:
    (found,) = check_seeds(options, engine, place)
    assert advice in found.instead


@pytest.mark.parametrize("row", [row for row in SEED_NAMES if row.name])
def test_the_name_that_an_engine_reads_gives_no_warning(row: object) -> None:
    assert isinstance(row, type(SEED_NAMES[0]))
    assert check_seeds({row.name: 1}, row.engine, row.place) == ()


def test_an_unknown_engine_gets_no_warning_and_every_row_has_a_source() -> None:
    assert check_seeds({"seed": 1}, "another", "request") == ()
    assert all(row.source.startswith("https://") for row in SEED_NAMES)
