"""Fidelity and accumulator width of kernels."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.dialects.ttnn_layout import tile_layout
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.passes.ttnn_compute_config import LEFT_HIGH, RIGHT_HIGH, mantissa_bits
from opscope.compiler.target import binary
from opscope.compiler.target.formats import number_format
from opscope.compiler.tests import programs
from opscope.simulator.kernels.eltwise import SRC_A_HIGH, SRC_B_HIGH


def numerics(kernel, function, *args, board="n150", **options):
    data = api.compile(programs.stablehlo(function, *args), api.load_board(board), api.CompileOptions(**options))
    (op,) = [op for op in binary.read(data).programs[0].operations if op.kernel == kernel]
    return op.numerics


def test_float32_and_the_matrix_unit_accumulate_in_32_bits():
    narrow, wide = np.ones((4, 4), ml_dtypes.bfloat16), np.ones((4, 4), np.float32)
    half = np.ones((4, 4), np.float16)
    assert numerics("add", jnp.add, narrow, narrow).dst_format == "Float16_b"
    assert numerics("add", jnp.add, half, half).dst_format == "Float16"
    assert numerics("add", jnp.add, wide, wide).dst_format == "Float32"
    assert numerics("matmul", jnp.matmul, narrow, narrow).dst_format == "Float32"


def test_block_formats_narrow_the_accumulator_too():
    wide = np.ones((4, 4), np.float32)
    assert numerics("add", jnp.add, wide, wide, data_format="Bfp8_b").dst_format == "Float16_b"


@pytest.mark.parametrize("fidelity", ["LoFi", "HiFi2", "HiFi3", "HiFi4"])
def test_fidelity_is_the_one_asked_for(fidelity):
    a = np.ones((4, 4), np.float32)
    assert numerics("matmul", jnp.matmul, a, a, math_fidelity=fidelity).fidelity == fidelity


@pytest.mark.parametrize(
    ("shape", "dtype", "tiles"),
    [
        ((32, 256, 32), ml_dtypes.bfloat16, 2),  # along one line of cores
        ((32, 96, 32), ml_dtypes.bfloat16, 1),
        ((64, 256, 64), ml_dtypes.bfloat16, 1),  # over rows and columns of cores: 8 tiles are no multiple of 11
        ((64, 32 * 11 * 3, 64), ml_dtypes.bfloat16, 3),
        ((64, 256, 64), np.float32, 0),
    ],
)
def test_products_are_cut_as_ttnn_cuts_them(shape, dtype, tiles):
    """By recorded runs of ttnn 0.81.1: in place of the fourth, 13 columns of cores cut a depth of 26 in twos."""
    m, k, n = shape
    left, right = np.ones((m, k), dtype), np.ones((k, n), dtype)
    assert numerics("matmul", jnp.matmul, left, right, board="p150", numerics="ttnn", math_fidelity="").k_block == tiles


def test_unknown_fidelity_is_refused():
    a = np.ones((4, 4), np.float32)
    with pytest.raises(CompilerInputError, match="math fidelity: expected one of LoFi"):
        numerics("matmul", jnp.matmul, a, a, math_fidelity="HiFi5")


def test_a_phase_reads_the_bits_that_the_simulated_unit_keeps():
    """The left operand lies in SrcB, the right one in SrcA, both as float32 patterns of 23 bits after the leading 1."""
    fraction = 2**23 - 1
    assert 1 + (SRC_B_HIGH & fraction).bit_count() == LEFT_HIGH
    assert 1 + (SRC_A_HIGH & fraction).bit_count() == RIGHT_HIGH


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("Float32", 24),
        ("Float16_b", 8),
        ("Float16", 11),
        ("Bfp8", 7),
        ("Bfp8_b", 7),
        ("Bfp4_b", 3),
        ("Bfp2_b", 1),
        ("Lf8", 3),
        ("Fp8_e4m3", 4),
        ("Int32", 32),
    ],
)
def test_bits_of_a_mantissa_with_the_leading_one(name: str, bits: int):
    """A datum of a block has a sign and the leading one beside its exponent, which all 16 share."""
    assert mantissa_bits(tile_layout((32, 32), number_format(name).ttcore)) == bits
