"""Elementwise kernels at the ends of their types, at every fidelity: pairs of zeros, ones, ends, denormals, Inf, NaN.

What the matrix unit computes of floats narrower than 32 bits is held to its own rule, in whole numbers: exponent 255 is
a number, denormals are 0, and a result of 2^128 or more is Inf (tt-isa-documentation, FloatBitPatterns.md, ELWMUL.md).
"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.program import EltwiseParams, Numerics
from opscope.simulator.kernels.eltwise import BINARY, UNARY
from opscope.simulator.tests.programs import run_kernel

BF16 = ml_dtypes.bfloat16
FIDELITIES = ("HiFi4", "HiFi3", "HiFi2", "HiFi2_B", "LoFi")
LARGEST = {np.float32: 3.4028235e38, BF16: 3.3895314e38, np.float16: 65504.0}


def ends(dtype: type) -> np.ndarray:
    """The ends of a type; of float16, whose infinity is a number to the device alone, the finite ones."""
    info = ml_dtypes.finfo(dtype)
    tiny, denormal = float(info.smallest_normal), float(info.smallest_subnormal)
    most = LARGEST[dtype]
    values = [0.0, -0.0, 1.0, -1.0, 1.875, most, -most, tiny, denormal]
    return np.array(values if dtype is np.float16 else [*values, np.inf, -np.inf, np.nan], dtype)


def pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """All pairs, as two rows."""
    left, right = np.meshgrid(ends(dtype), ends(dtype))
    return left.reshape(1, -1), right.reshape(1, -1)


def number(x: np.generic) -> Fraction:
    """What the matrix unit reads in a pattern."""
    bits, fraction, exponent_bits = (int(x.view(np.uint16)), *((7, 8) if x.dtype == BF16 else (10, 5)))
    exponent = bits >> fraction & (1 << exponent_bits) - 1
    if not exponent:
        return Fraction(0)
    size = (1 + Fraction(bits & (1 << fraction) - 1, 1 << fraction)) * Fraction(2) ** (
        exponent - (1 << exponent_bits - 1) + 1
    )
    return -size if bits >> 15 else size


def exponent_of(x: Fraction) -> int:
    """The exponent of the largest power of two that is no larger."""
    near = x.numerator.bit_length() - x.denominator.bit_length()
    return near if abs(x) >= Fraction(2) ** near else near - 1


def leading(x: Fraction, bits: int) -> Fraction:
    """The first bits of fraction of a number."""
    if not x:
        return x
    unit = Fraction(2) ** (exponent_of(x) - bits)
    return (abs(x) // unit) * unit * (-1 if x < 0 else 1)


def product(a: Fraction, b: Fraction, fidelity: str) -> Fraction:
    """ELWMUL.md: 4 and then 5 bits of SrcA, 6 and then 4 of SrcB, in one to four phases."""
    a = leading(a, 9)
    a_high, b_high = leading(a, 4), leading(b, 6)
    phases = [a_high * b_high, (a - a_high) * b_high, a_high * (b - b_high), (a - a_high) * (b - b_high)]
    taken = {"LoFi": [0], "HiFi2": [0, 1], "HiFi2_B": [0, 2], "HiFi3": [0, 1, 2], "HiFi4": [0, 1, 2, 3]}
    return sum((phases[phase] for phase in taken[fidelity]), Fraction(0))


def packed(value: Fraction, dtype: type) -> float:
    """A result as Dst and packer leave it: Inf from 2^128 on, to nearest, ties away, denormals 0."""
    if abs(value) >= 2**128:
        return float("inf") if value > 0 else float("-inf")
    fraction, least, most = (7, -126, 127) if dtype is BF16 else (10, -14, 15)
    size = abs(value)
    unit = Fraction(2) ** ((exponent_of(size) if size else 0) - fraction)
    rounded = (size / unit + Fraction(1, 2)).__floor__() * unit
    if rounded < Fraction(2) ** least:
        return 0.0
    if rounded >= Fraction(2) ** (most + 1):
        rounded = Fraction(2) ** 128 if dtype is BF16 else rounded
    return float("inf" if rounded >= 2**128 else float(rounded)) * (-1 if value < 0 else 1)


@pytest.mark.crossed
@pytest.mark.parametrize("dtype", [BF16, np.float16])
@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_the_matrix_unit_has_numbers_where_ieee_has_infinity(dtype: type, fidelity: str) -> None:
    left, right = pairs(dtype)
    for name in ("add", "subtract", *(("multiply",) if dtype is np.float16 else ())):
        got = run_kernel(
            name,
            EltwiseParams(),
            [left, right],
            left.shape,
            "bf16" if dtype is BF16 else "f16",
            Numerics(fidelity=fidelity),
        )[0]
        for a, b, value in zip(left[0], right[0], got, strict=True):
            x, y = number(a), number(b)
            exact = product(x, y, fidelity) if name == "multiply" else x + y if name == "add" else x - y
            expected = packed(exact, dtype)
            if dtype is np.float16 and abs(expected) > LARGEST[dtype]:
                assert abs(float(value)) >= LARGEST[dtype], (name, a, b, value)  # its overflow is another test's
                assert np.signbit(value) == (exact < 0), (name, a, b, value)
                continue
            assert float(value) == expected, (name, a, b, value, expected)
            assert not (value == 0 and np.signbit(value)), (name, a, b)


BLOCKS = {"Bfp8": (2**-14, 127 * 2**10), "Bfp8_b": (2**-126, 127 * 2**121)}
"""Block format -> the smallest and the largest number of a block that holds one number."""


def one_a_block(x: np.ndarray) -> np.ndarray:
    """Each number at the head of a row, which is a block of its own."""
    return np.pad(x.reshape(-1, 1), ((0, 0), (0, 15)))


def in_block(value: Fraction, data_format: str) -> Fraction:
    """A number that shares its exponent with nothing: seven bits with the leading one, to nearest, ties away; what is
    too large is the largest, as infinity is (FormatConversion.md: magnitudes saturate)."""
    least, most = BLOCKS[data_format]
    if abs(value) < Fraction(least):
        return Fraction(0)
    size = min(abs(value), Fraction(most))
    cut = leading(size, 6)
    if size - cut >= leading(size, 0) / 128:  # the half of a unit of the last of six bits
        # A magnitude that rounds up to 128 stays 127.
        cut = min(cut + leading(size, 0) / 64, leading(size, 0) * 127 / 64)
    return -cut if value < 0 else cut


def packed_in_block(value: Fraction, data_format: str) -> float:
    """What the packer makes of a number in Dst: cut to bfloat16, rounded to six bits, whose carry raises the exponent.
    Of 8 exponent bits 255 is one like others, and reads as infinity."""
    cut = leading(value, 7)
    six = leading(cut, 6)
    size = abs(six) + (leading(abs(cut), 0) / 64 if cut != six else 0)
    least, most = BLOCKS[data_format]
    if size < Fraction(least):
        return 0.0
    if size > Fraction(most):
        size = Fraction(most) if data_format == "Bfp8" else size
    large = float("inf") if size >= 2**128 else float(size)
    return -large if value < 0 else large


def exactly(x: np.generic, data_format: str) -> Fraction:
    """What is stored of a float in a block of its own: of infinity, and of NaN too, the largest, or 2^128."""
    if np.isfinite(x):
        return in_block(Fraction(float(x)), data_format)
    largest = Fraction(BLOCKS[data_format][1]) if data_format == "Bfp8" else Fraction(2**128)
    return -largest if np.signbit(x) else largest


@pytest.mark.crossed
@pytest.mark.parametrize("data_format", sorted(BLOCKS))
@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_block_formats_end_where_their_exponents_do(data_format: str, fidelity: str) -> None:
    left, right = pairs(BF16)
    operands = [one_a_block(left), one_a_block(right)]
    for name in ("multiply", "add", "subtract"):
        got = run_kernel(
            name,
            EltwiseParams(),
            operands,
            operands[0].shape,
            "bf16",
            Numerics(fidelity=fidelity),
            data_format=data_format,
        )
        assert not got[:, 1:].any()
        for a, b, value in zip(left[0], right[0], got[:, 0], strict=True):
            x, y = exactly(a, data_format), exactly(b, data_format)
            exact = product(x, y, fidelity) if name == "multiply" else x + y if name == "add" else x - y
            if abs(exact) < 2**127:
                exact = Fraction(float(np.float32(float(exact))))  # as Dst holds it
            expected = packed_in_block(exact, data_format)
            assert float(value) == expected, (name, a, b, value, expected)
            assert not (value == 0 and np.signbit(value)), (name, a, b)


@pytest.mark.parametrize(
    "fidelities",
    # quick: those with the most phases and the fewest
    [("HiFi4", "LoFi"), pytest.param(FIDELITIES, marks=pytest.mark.slow)],
    ids=len,
)
@pytest.mark.parametrize(
    ("dtype", "data_format"),
    [
        (np.float32, None),
        (BF16, None),
        pytest.param(BF16, "Bfp8", marks=pytest.mark.slow),  # quick: Bfp8_b, whose exponents are longer
        (BF16, "Bfp8_b"),
    ],
)
def test_no_fidelity_changes_what_the_vector_unit_computes(
    dtype: type, data_format: str | None, fidelities: tuple[str, ...]
) -> None:
    """And of Float32 it computes as IEEE 754 says, of operands whose denormals are zeros."""
    left, right = (one_a_block(x) if data_format else x for x in pairs(dtype))
    element = "f32" if dtype is np.float32 else "bf16"
    names = [(name, 1) for name, on_float, *_ in UNARY if on_float is not None]
    names += [(name, 2) for name, on_float, _, _, unit, _ in BINARY if on_float is not None and unit == "sfpu"]
    names += [("multiply", 2), ("add", 2), ("subtract", 2)] if dtype is np.float32 else []
    ieee = {
        "multiply": np.multiply,
        "add": np.add,
        "subtract": np.subtract,
        "divide": np.divide,
        "abs": np.abs,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "floor": np.floor,
        "ceil": np.ceil,
    }
    for name, arity in names:
        operands = [left, right][:arity]
        results = [
            run_kernel(
                name,
                EltwiseParams(),
                operands,
                left.shape,
                element,
                Numerics(fidelity=fidelity),
                data_format=data_format,
            )
            for fidelity in fidelities
        ]
        assert len({result.tobytes() for result in results}) == 1, name
        if data_format and name not in ("isfinite", "signbit", "logical_not"):
            wide = results[0].astype(np.float64)
            assert np.isfinite(wide).all() if data_format == "Bfp8" else not np.isnan(wide).any(), name
        if dtype is np.float32 and name in ieee:
            tiny = np.finfo(np.float32).tiny
            read = [np.where(np.abs(x) < tiny, np.float32(0), x) for x in operands]
            with np.errstate(all="ignore"):
                expected = ieee[name](*read)
            np.testing.assert_array_equal(results[0], np.where(np.abs(expected) < tiny, np.float32(0), expected), name)
