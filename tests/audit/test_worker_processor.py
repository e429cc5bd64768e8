"""A variable never makes a library use instructions that the processor lacks."""

import pytest

from samebits.audit.targets.processor import refuse_variables

AVX2 = frozenset({"pni", "sse4_2", "avx", "avx2"})


@pytest.mark.parametrize(
    ("name", "value", "needle"),
    [
        ("OPENBLAS_CORETYPE", "SkylakeX", "avx512f"),
        ("ATEN_CPU_CAPABILITY", "avx512", "avx512f"),
        ("OPENBLAS_CORETYPE", "Quantum", "not known"),
    ],
)
def test_what_the_processor_lacks_is_refused(name: str, value: str, needle: str) -> None:
    assert needle in refuse_variables([("MKL_CBWR", "AVX2"), (name, value)], AVX2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENBLAS_CORETYPE", "Haswell"),
        ("ATEN_CPU_CAPABILITY", "default"),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE"),
    ],
)
def test_what_it_has_or_the_library_checks_is_not(name: str, value: str) -> None:
    assert refuse_variables([(name, value)], AVX2) == ""
