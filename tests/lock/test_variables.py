"""Variables are read by an allow-list of names and shapes, so that no secret can come along."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.lock.variables import HIDDEN, VARIABLES, select_variables

REAL = {
    "OMP_NUM_THREADS": "4,2",
    "OMP_SCHEDULE": "nonmonotonic:dynamic,4",
    "OMP_PLACES": "{0:4},{4:4}",
    "OMP_PROC_BIND": "close",
    "GOMP_CPU_AFFINITY": "0-3 4,6",
    "KMP_AFFINITY": "granularity=fine,compact,1,0",
    "MKL_CBWR": "AVX2,STRICT",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX",
    "OPENBLAS_CORETYPE": "Haswell",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "NVIDIA_TF32_OVERRIDE": "0",
    "PYTHONHASHSEED": "random",
    "VLLM_ATTENTION_BACKEND": "TORCH_SDPA",
    "VLLM_CPU_OMP_THREADS_BIND": "0-29|30-59",
    "VLLM_CPU_KVCACHE_SPACE": "40",
    "NCCL_PROTO": "^LL128",
    "MKL_DOMAIN_NUM_THREADS": "MKL_BLAS=2",
    "XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0",
    "LLAMA_ARG_THREADS": "-1",
    "LLAMA_ARG_FLASH_ATTN": "auto",
}


@pytest.mark.parametrize(("name", "value"), REAL.items())
def test_values_that_people_set_are_recorded_as_they_stand(name: str, value: str) -> None:
    assert select_variables({name: value}) == {name: value}


def test_other_variables_and_empty_ones_are_not_read() -> None:
    others = {"HOME": "/home/someone", "VLLM_API_KEY": "k", "OMP_SECRET": "s", "MKL_CBWR": ""}
    assert select_variables(others) == {}


@given(value=st.text(min_size=13).filter(lambda text: not set(text) <= set("0123456789,:{}-| ")))
def test_a_value_of_another_shape_is_told_but_not_shown(value: str) -> None:
    shown = set(select_variables(dict.fromkeys(VARIABLES, value)).values())
    assert shown <= {HIDDEN}


def test_no_shape_takes_a_line_break_or_a_path() -> None:
    for name, value in REAL.items():
        assert select_variables({name: f"{value}\n"}) == {name: HIDDEN}
        assert select_variables({name: f"/home/someone/{value}"}) == {name: HIDDEN}


def test_preloaded_libraries_are_named_without_their_folders() -> None:
    text = "/home/someone/lib/libiomp5.so:/usr/lib/libtcmalloc.so.4 /opt/secret.bin"
    assert select_variables({"LD_PRELOAD": text}) == {
        "LD_PRELOAD": f"libiomp5.so libtcmalloc.so.4 {HIDDEN}"
    }


def test_no_name_on_the_list_is_one_that_holds_secrets() -> None:
    words = ("KEY", "TOKEN", "SECRET", "PASS", "AUTH", "URL", "HOST", "USER", "PROXY")
    assert [name for name in VARIABLES if any(word in name for word in words)] == []
