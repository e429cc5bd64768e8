"""OrderFree loads what it is given, in any blocks, and computes alike on any number of threads."""

import numpy as np
import pytest

from samebits.errors import ConfigError
from samebits.numerics import portable, reference
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.order_free import OrderFree
from samebits.numerics.plain import Plain
from samebits.numerics.values import Weight, pack_weight
from tests.numerics.cases import Matrix, assert_same_bits, have_same_bits, normal


def make_arithmetic(name: str) -> Arithmetic:
    return OrderFree(portable) if name == "sb1" else Plain(name)


def test_stacked_sources_with_awkward_row_counts_load_in_order() -> None:
    parts = [normal(n, 40, seed=n) for n in (5, 33, 1, 18)]
    biases = [normal(n) for n in (5, 33, 1, 18)]
    x = normal(3, 40)
    for name in ("sb1", "plain-f32"):
        arithmetic = make_arithmetic(name)
        stacked = arithmetic.load_linear([Matrix(p) for p in parts], biases)
        whole = arithmetic.load_linear([Matrix(np.concatenate(parts))], [np.concatenate(biases)])
        for a, b in zip(
            arithmetic.weight_arrays(stacked), arithmetic.weight_arrays(whole), strict=True
        ):
            assert have_same_bits(a, b)
        assert arithmetic.linear(x, stacked).shape == (3, 57)


def test_loading_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Matrix(normal(100, 40))
    for name in ("sb1", "plain-bf16"):
        arithmetic = make_arithmetic(name)
        whole = arithmetic.weight_arrays(arithmetic.load_linear([source]))
        with monkeypatch.context() as patch:
            patch.setattr("samebits.numerics.order_free.BLOCK_BYTES", 1)
            blocks = arithmetic.weight_arrays(arithmetic.load_linear([source]))
        assert all(have_same_bits(a, b) for a, b in zip(whole, blocks, strict=True))


def test_a_loaded_linear_is_the_packed_quantised_matrix() -> None:
    values = normal(37, 41)
    for bits in (16, 8):
        weight: Weight = OrderFree(reference, bits=bits).load_linear([Matrix(values)])
        q, scale = reference.quantise_weight(values, bits)
        assert_same_bits(weight.packed, pack_weight(q))
        assert_same_bits(weight.scale[:37], scale)
        assert (weight.scale[37:] == 0).all()
        assert (weight.num_outputs, weight.num_inputs, weight.bits) == (37, 41, bits)


def test_kernels_may_be_swapped_on_loaded_weights() -> None:
    arithmetic = OrderFree(portable)
    weight = arithmetic.load_linear([Matrix(normal(37, 41))])
    found = arithmetic.logits(normal(3, 41), weight)
    arithmetic.kernels = reference
    assert_same_bits(arithmetic.logits(normal(3, 41), weight), found)


def test_threads_of_blas_are_in_force_and_do_not_reach_the_bits() -> None:
    found = []
    for threads in (1, 2):
        arithmetic = OrderFree(portable, threads=threads)
        weight = arithmetic.load_linear([Matrix(normal(1000, 576))])
        assert arithmetic.threads == threads
        found.append(arithmetic.linear(normal(129, 576), weight))
    assert_same_bits(found[1], found[0])


def test_two_thread_counts_live_in_one_process() -> None:
    one, two = OrderFree(portable, threads=1), OrderFree(portable, threads=2)
    assert (one.threads, two.threads, one.threads) == (1, 2, 1)


def test_kernels_with_threads_of_their_own_say_how_many() -> None:
    class Threaded:
        threads = 3

        def __getattr__(self, name: str) -> object:
            return getattr(portable, name)

    assert OrderFree(Threaded(), threads=1).threads == 3  # type: ignore[arg-type]


def test_other_bits_are_refused() -> None:
    with pytest.raises(ConfigError, match="16 or 8"):
        OrderFree(portable, bits=4)


def test_embedding_scale_is_one_rounded_multiplication() -> None:
    rows = normal(2, 8)
    assert_same_bits(OrderFree(portable).embed(rows, 25.25), rows * np.float32(25.25))
