"""Fidelity and accumulator width of kernels."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary
from opscope.compiler.tests import programs


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


def test_unknown_fidelity_is_refused():
    a = np.ones((4, 4), np.float32)
    with pytest.raises(CompilerInputError, match="math fidelity: expected one of LoFi"):
        numerics("matmul", jnp.matmul, a, a, math_fidelity="HiFi5")
