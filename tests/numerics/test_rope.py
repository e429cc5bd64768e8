"""RoPE tables are right to the last bit of float32, and the same on every machine."""

import hashlib
import math
from decimal import Decimal, getcontext, localcontext

import numpy as np
import pytest

from samebits.errors import ConfigError
from samebits.numerics.rope import PI, Scaling, make_frequencies, make_rope_table
from samebits.numerics.values import RopeTable

LLAMA3 = Scaling(
    kind="llama3",
    factor=32.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_context=8192,
)


def exact_cos_sin(angle: Decimal) -> tuple[Decimal, Decimal]:
    """Sum the Taylor series in decimal, whole turns taken off first; an independent way."""
    angle = angle.remainder_near(2 * PI)
    cos = sin = Decimal(0)
    term = Decimal(1)
    for n in range(60):
        sign = 1 if n % 4 < 2 else -1
        if n % 2 == 0:
            cos += sign * term
        else:
            sin += sign * term
        term = term * angle / (n + 1)
    return cos, sin


def count_wrong(table: RopeTable, theta: float, positions: range) -> int:
    """Count entries that are not correctly rounded; none may be more than one ulp away."""
    wrong = 0
    half = table.cos.shape[1]
    with localcontext() as context:
        context.prec = 50
        for i in range(half):
            frequency = (-Decimal(theta).ln() * i / half).exp()
            for p in positions:
                exact = exact_cos_sin(frequency * p)
                for found, value in zip((table.cos[p, i], table.sin[p, i]), exact, strict=True):
                    nearest = np.float32(float(value))
                    assert abs(found - nearest) <= np.spacing(np.abs(nearest))
                    wrong += found != nearest
    return wrong


@pytest.mark.parametrize("theta", [1e4, 1e5, 1e6])
def test_entries_are_correctly_rounded(theta: float) -> None:
    table = make_rope_table(64, theta, 8192)
    assert count_wrong(table, theta, range(0, 8192, 455)) == 0


def test_entries_stay_within_an_ulp_far_along_the_context() -> None:
    table = make_rope_table(16, 5e5, 131072)
    assert count_wrong(table, 5e5, range(131000, 131072, 5)) <= 1


def test_float64_table_is_close_to_libm() -> None:
    # libm's angle is off by fl(p * f): 512 * 2**-53 < 6e-14.
    table = make_rope_table(8, 1e4, 512, dtype=np.float64)
    angles = np.arange(512)[:, None] * 1e4 ** (-np.arange(4) / 4)
    assert table.cos.dtype == np.float64
    np.testing.assert_allclose(table.cos, np.cos(angles), rtol=0, atol=1e-13)
    np.testing.assert_allclose(table.sin, np.sin(angles), rtol=0, atol=1e-13)


def test_float32_table_is_the_float64_table_rounded_once() -> None:
    fine = make_rope_table(32, 1e5, 5000, LLAMA3, np.float64)
    table = make_rope_table(32, 1e5, 5000, LLAMA3)
    assert (table.cos == fine.cos.astype(np.float32)).all()
    assert (table.sin == fine.sin.astype(np.float32)).all()


def test_position_zero_does_not_turn() -> None:
    table = make_rope_table(64, 1e4, 1)
    assert (table.cos == 1).all()
    assert (table.sin == 0).all()


def test_a_longer_table_begins_with_the_shorter_one() -> None:
    short, long = make_rope_table(16, 1e4, 100), make_rope_table(16, 1e4, 9000)
    assert (long.cos[:100] == short.cos).all()
    assert (long.sin[:100] == short.sin).all()


def test_linear_scaling_divides_every_frequency() -> None:
    plain = make_frequencies(64, 1e6).astype(np.float64)
    scaled = make_frequencies(64, 1e6, Scaling(kind="linear", factor=8.0)).astype(np.float64)
    np.testing.assert_allclose(scaled, plain / 8, rtol=1e-10)


def test_llama3_scaling_stretches_long_wavelengths_only() -> None:
    plain = make_frequencies(64, 5e5).astype(np.float64) / 2**64
    scaled = make_frequencies(64, 5e5, LLAMA3).astype(np.float64) / 2**64
    short, long = plain > 4 / 8192, plain < 1 / 8192
    smooth = (8192 * plain - 1) / 3
    between = (1 - smooth) * plain / 32 + smooth * plain
    assert short.any() and long.any() and not (short | long).all()
    np.testing.assert_allclose(scaled[short], plain[short], rtol=0)
    np.testing.assert_allclose(scaled[long], plain[long] / 32, rtol=1e-9)
    middle = ~(short | long)
    np.testing.assert_allclose(scaled[middle], between[middle], rtol=1e-9)


def test_frequencies_do_not_depend_on_the_decimal_context_of_the_caller() -> None:
    expected = make_frequencies(64, 1e5, LLAMA3)
    with localcontext() as context:
        context.prec = 5
        assert (make_frequencies(64, 1e5, LLAMA3) == expected).all()
    assert getcontext().prec != 60


def test_pi_has_fifty_correct_decimals() -> None:
    # Machin's formula with 60 digits.
    with localcontext() as context:
        context.prec = 60

        def arctan_inverse(x: int) -> Decimal:
            return sum(
                (Decimal((-1) ** n) / ((2 * n + 1) * Decimal(x) ** (2 * n + 1)) for n in range(45)),
                Decimal(0),
            )

        pi = 16 * arctan_inverse(5) - 4 * arctan_inverse(239)
        assert abs(pi - PI) < Decimal("1e-49")
    assert float(PI) == math.pi


@pytest.mark.parametrize(
    ("scaling", "digest"),
    [
        (Scaling(), "1f2a00919c6a1a86780fd47707b42432e3fbd38aab8128a3e7a875ffbabaabe9"),
        (LLAMA3, "f31c9c07adc497e40f4af5f5425a41e261d969a769186db2e9a3dbf7122eb1a0"),
    ],
)
def test_tables_have_their_pinned_digests(scaling: Scaling, digest: str) -> None:
    table = make_rope_table(64, 1e5, 2048, scaling)
    found = hashlib.sha256(table.cos.tobytes() + table.sin.tobytes()).hexdigest()
    assert found == digest


@pytest.mark.parametrize(
    ("head_dim", "theta", "scaling"),
    [
        (63, 1e4, Scaling()),
        (64, 0.5, Scaling()),
        (64, float("nan"), Scaling()),
        (64, 1e4, Scaling(kind="yarn")),
    ],
)
def test_what_is_not_implemented_is_refused(head_dim: int, theta: float, scaling: Scaling) -> None:
    with pytest.raises(ConfigError):
        make_rope_table(head_dim, theta, 16, scaling)
