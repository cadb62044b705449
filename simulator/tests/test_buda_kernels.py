"""TT-Buda's tensor manipulations and the gather of windows, against NumPy's and XLA's own words for them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from opscope.compiler.target.program import Numerics, SparseMatmulParams, TensorDesc, TmsParams
from opscope.simulator.kernels import KERNELS
from opscope.simulator.kernels.buda import manipulate
from opscope.simulator.kernels.registry import Call

X = np.arange(2 * 64 * 128, dtype=np.float32).reshape(2, 64, 128)

CASES = {
    "hslice(4)": lambda x: np.concatenate([np.stack(np.split(m, 4, axis=1)) for m in x]),
    "vslice(2)": lambda x: np.concatenate([np.stack(np.split(m, 2, axis=0)) for m in x]),
    "hstack(2)": lambda x: np.concatenate(list(x), axis=1)[None],
    "vstack(2)": lambda x: np.concatenate(list(x), axis=0)[None],
    "transpose": lambda x: np.stack([m.T for m in x]),
    "broadcast(r, 3)": lambda x: np.concatenate([x] * 3, axis=1),
    "broadcast(c, 2)": lambda x: np.concatenate([x] * 2, axis=2),
    "broadcast(z, 2)": lambda x: np.concatenate([x] * 2, axis=0),
    "buda_pad(1, 2)": lambda x: np.pad(x, ((0, 0), (0, 32), (0, 64))),
    "buda_unpad(1, 2)": lambda x: x[:, :-32, :-64],
}


@pytest.mark.parametrize("tm", CASES)
def test_a_manipulation_is_what_its_name_says(tm: str) -> None:
    np.testing.assert_array_equal(manipulate(X, tm), CASES[tm](X))


def test_a_tile_broadcast_repeats_the_first_row_of_each_tile() -> None:
    out = manipulate(X, "tile_broadcast(r)")
    assert out.shape == X.shape
    np.testing.assert_array_equal(out[:, 32:], np.repeat(X[:, 32:33], 32, axis=1))


def test_an_unknown_manipulation_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a manipulation"):
        manipulate(X, "twist(3)")


def test_rows_that_do_not_fill_tiles_are_zeros_on_the_way() -> None:
    x = np.ones((1, 40, 20), np.float32)
    desc = TensorDesc(x.shape, "f32", "Float32", "tile", "dram")
    out = TensorDesc((2, 32, 20), "f32", "Float32", "tile", "dram")
    call = Call(TmsParams(("vslice(2)",), (2, 32, 20)), Numerics(), (desc,), (out,))
    result = KERNELS["tms"].function([x], call)
    assert np.asarray(result).sum() == 40 * 20
    assert not np.asarray(result)[1, 8:].any()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 1, 2, 0)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_gathered_windows_times_weights_are_a_convolution(stride: int, padding: tuple, dilation: int) -> None:
    rng = np.random.default_rng(0)
    image, weights = rng.standard_normal((1, 9, 11, 32)), rng.standard_normal((3, 3, 32, 5))
    image, weights = image.astype(np.float32), weights.astype(np.float32)
    golden = jax.lax.conv_general_dilated(
        image,
        weights,
        (stride, stride),
        (padding[:2], padding[2:]),
        rhs_dilation=(dilation, dilation),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision="highest",
    )
    params = SparseMatmulParams((9, 11), (3, 3), (stride, stride), padding, (dilation, dilation))
    desc = TensorDesc((1, 99, 32), "f32", "Float32", "tile", "dram")
    call = Call(params, Numerics(), (desc,), (desc,))
    rows = np.asarray(KERNELS["sparse_matmul"].function([image.reshape(1, 99, 32)], call))
    taps = rows.reshape(9, -1, 32)
    pixels = golden.shape[1] * golden.shape[2]
    out = np.einsum("tpc,tco->po", taps[:, :pixels], weights.reshape(9, 32, 5))
    np.testing.assert_allclose(out, np.asarray(golden).reshape(pixels, 5), rtol=2e-5, atol=2e-5)
