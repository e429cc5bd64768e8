"""Every backend gives the golden digest of every operation."""

import json
from pathlib import Path

import pytest

from samebits.numerics import portable, reference
from samebits.numerics.native.kernels import NativeKernels, list_levels
from samebits.numerics.order_free import Kernels
from tests.golden.operations import CASES, digest_case

GOLDEN: dict[str, str] = json.loads(Path(__file__).with_name("operations.json").read_text())
BACKENDS = ["reference", "portable", *list_levels(), "wide"]


@pytest.fixture(scope="module", params=BACKENDS)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    name: str = request.param
    if name in ("reference", "portable"):
        return reference if name == "reference" else portable
    return NativeKernels(level=name, threads=2)


@pytest.mark.parametrize("case", CASES)
def test_operation_gives_its_golden_digest(kernels: Kernels, case: str) -> None:
    assert digest_case(case, kernels) == GOLDEN[case]


def test_every_case_has_one_golden_digest_of_its_own() -> None:
    assert list(GOLDEN) == list(CASES)
    assert len(set(GOLDEN.values())) == len(CASES)
