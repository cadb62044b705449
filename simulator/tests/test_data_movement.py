"""Data movement, gather, creation and layout kernels against XLA and NumPy: exact."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_array_equal

from opscope.compiler.target.program import (
    ArangeParams,
    BroadcastParams,
    ConcatParams,
    ConstantParams,
    EltwiseParams,
    FullParams,
    GatherParams,
    PadParams,
    PermuteParams,
    ReshapeParams,
    ReverseParams,
    SliceParams,
)
from opscope.simulator.tests.programs import run_kernel

RANDOM = np.random.default_rng(17)
X = RANDOM.standard_normal((3, 4, 5)).astype(np.float32)
# What only moves keeps every bit: denormals, NaN, minus zero.
X[0, 0, :3] = [1e-42, np.nan, -0.0]


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint32)


@pytest.mark.parametrize(
    ("kernel", "params", "want"),
    [
        ("permute", PermuteParams((2, 0, 1)), X.transpose(2, 0, 1)),
        ("reshape", ReshapeParams((6, 10)), X.reshape(6, 10)),
        ("slice_static", SliceParams((1, 0, 1), (3, 4, 5), (1, 3, 2)), X[1:3, 0:4:3, 1:5:2]),
        ("reverse", ReverseParams((0, 2)), X[::-1, :, ::-1]),
        ("concat", ConcatParams(1), X),
    ],
)
def test_moves_keep_every_bit(kernel: str, params: object, want: np.ndarray) -> None:
    got = run_kernel(kernel, params, [X], want.shape, "f32")
    assert_array_equal(bits(got), bits(want))


def test_concat_and_broadcast() -> None:
    y = RANDOM.standard_normal((3, 1, 5)).astype(np.float32)
    assert_array_equal(run_kernel("concat", ConcatParams(1), [X, y, X], (3, 9, 5), "f32"), np.concatenate([X, y, X], 1))
    got = run_kernel("broadcast", BroadcastParams((3, 7, 5)), [y], (3, 7, 5), "f32")
    assert_array_equal(got, np.broadcast_to(y, (3, 7, 5)))


def test_a_large_transpose_is_the_same() -> None:
    x = np.arange(3 * 700 * 900, dtype=np.int32).reshape(3, 700, 900)
    assert_array_equal(run_kernel("permute", PermuteParams((2, 0, 1)), [x], (900, 3, 700), "i32"), x.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("low", "high", "interior"),
    [
        ((1, 0, 2), (0, 3, 1), (0, 0, 0)),
        ((0, 1, 0), (2, 0, 0), (1, 0, 3)),
        ((-1, 2, -2), (1, -3, -1), (0, 1, 2)),
        ((-3, -1, -4), (2, 5, 9), (2, 1, 1)),
        ((0, 0, -4), (0, 0, -1), (0, 0, 0)),
    ],
)
def test_pad_is_stablehlo_s(low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]) -> None:
    x = RANDOM.standard_normal((3, 4, 5)).astype(np.float32)
    want = np.asarray(lax.pad(x, np.float32(7.5), tuple(zip(low, high, interior, strict=True))))
    params = PadParams(low, high, interior, 7.5)
    assert_array_equal(run_kernel("pad", params, [x], want.shape, "f32"), want)
    assert_array_equal(run_kernel("pad", params, [x, np.float32(7.5).reshape(())], want.shape, "f32"), want)


GATHERS = {
    "rows": ((10, 6), (4, 1), GatherParams((1,), (0,), (), (), (0,), 1, (1, 6))),
    "whole_rows_behind": ((4, 8, 6), (3, 1), GatherParams((0, 2), (1,), (), (), (1,), 1, (4, 1, 6))),
    "whole_and_windows": ((8, 9, 4, 3), (5, 2), GatherParams((1, 2, 3), (1,), (), (), (0, 1), 1, (3, 1, 4, 2))),
    "nothing_but_whole": ((8, 3), (4, 1), GatherParams((1, 2), (), (), (), (0,), 1, (8, 3))),
    "windows": ((8, 9, 4), (3, 2, 2), GatherParams((2, 3), (2,), (), (), (0, 2), 2, (3, 2, 1))),
    "swapped": ((8, 9), (2, 5), GatherParams((0, 2), (), (), (), (1, 0), 0, (3, 4))),
    "scalars": ((8, 9), (5, 2), GatherParams((), (0, 1), (), (), (0, 1), 1, (1, 1))),
    "one_scalar": ((10,), (1,), GatherParams((), (0,), (), (), (0,), 0, (1,))),
    "no_index_dim": ((8, 3), (4, 2), GatherParams((1,), (0,), (), (), (0,), 2, (1, 3))),
    "batched": ((4, 7, 3), (4, 5, 1), GatherParams((2,), (1,), (0,), (0,), (1,), 2, (1, 1, 3))),
    "batched_late": ((7, 4), (5, 1, 4), GatherParams((), (0,), (1,), (2,), (0,), 1, (1, 1))),
}


@pytest.mark.parametrize("name", sorted(GATHERS))
def test_gather_is_xla_s(name: str) -> None:
    shape, index_shape, params = GATHERS[name]
    x = RANDOM.standard_normal(shape).astype(np.float32)
    indices = RANDOM.integers(-3, 12, index_shape).astype(np.int32)
    numbers = lax.GatherDimensionNumbers(
        params.offset_dims,
        params.collapsed_slice_dims,
        params.start_index_map,
        params.operand_batching_dims,
        params.start_indices_batching_dims,
    )
    # JAX's gather has its index vector last.
    last = (
        indices[..., None]
        if params.index_vector_dim == indices.ndim
        else np.moveaxis(indices, params.index_vector_dim, -1)
    )
    if params.start_indices_batching_dims:
        moved = tuple(d - (d > params.index_vector_dim) for d in params.start_indices_batching_dims)
        numbers = numbers._replace(start_indices_batching_dims=moved)
    want = np.asarray(lax.gather(x, last, numbers, params.slice_sizes, mode="clip"))
    assert_array_equal(run_kernel("gather", params, [x, indices], want.shape, "f32"), want)


def test_embedding() -> None:
    table = RANDOM.standard_normal((11, 8)).astype(ml_dtypes.bfloat16)
    indices = np.array([[0, 10, 3], [99, -1, 4]], np.int32)
    got = run_kernel("embedding", GatherParams(), [indices, table], (2, 3, 8), "bf16")
    assert_array_equal(got.view(np.uint16), table[np.clip(indices, 0, 10)].view(np.uint16))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool"])
def test_creation(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    element = {"float32": "f32", "bfloat16": "bf16", "int32": "i32", "uint8": "ui8", "bool": "i1"}[dtype]
    value = np.array([3, 0, 1, 5, 9, 2]).reshape(2, 3).astype(kind)
    assert_array_equal(run_kernel("constant", ConstantParams((2, 3), value.tobytes()), [], (2, 3), element), value)
    got = run_kernel("full", FullParams((4, 2), value[0, :1].tobytes()), [], (4, 2), element)
    assert_array_equal(got, np.full((4, 2), value[0, 0]))
    if dtype != "bool":
        got = run_kernel("arange", ArangeParams((2, 5), 1, 3, 2), [], (2, 5), element)
        assert_array_equal(got, np.broadcast_to(np.arange(3, 13, 2), (2, 5)).astype(kind))


def test_full_keeps_minus_infinity() -> None:
    got = run_kernel("full", FullParams((2,), np.float32(-np.inf).tobytes()), [], (2,), "f32")
    assert got.tolist() == [-np.inf] * 2


@pytest.mark.parametrize(("source", "target"), [("float32", "i32"), ("float32", "ui8"), ("float32", "i8")])
def test_floats_become_integers_as_in_xla(source: str, target: str) -> None:
    dtype = {"i32": np.int32, "ui8": np.uint8, "i8": np.int8}[target]
    x = np.array([0, 1.9, -1.9, 127.5, -128.9, 1e9, 300, -300, 3e9, -3e9, np.nan, np.inf, -np.inf], source)
    want = np.asarray(lax.convert_element_type(x, dtype))
    assert_array_equal(run_kernel("typecast", EltwiseParams(), [x], x.shape, target), want)


def test_other_conversions() -> None:
    x = np.array([-3, 0, 7, 2**24 + 1], np.int32)
    none = EltwiseParams()
    assert_array_equal(run_kernel("typecast", none, [x], x.shape, "f32"), x.astype(np.float32))
    assert_array_equal(run_kernel("typecast", none, [x], x.shape, "i1"), x != 0)
    assert_array_equal(run_kernel("typecast", none, [x], x.shape, "i8"), x.astype(np.int8))
    assert_array_equal(run_kernel("typecast", none, [x > 0], x.shape, "f32"), (x > 0).astype(np.float32))
    y = RANDOM.standard_normal(500).astype(np.float32)
    assert_array_equal(run_kernel("typecast", none, [y], y.shape, "bf16"), y.astype(ml_dtypes.bfloat16))


def test_bitcast() -> None:
    assert_array_equal(run_kernel("bitcast_convert", EltwiseParams(), [X], X.shape, "i32"), X.view(np.int32))
    half = RANDOM.integers(0, 2**16, (3, 2)).astype(np.uint16)
    want = np.asarray(lax.bitcast_convert_type(half, np.float32))
    assert_array_equal(bits(run_kernel("bitcast_convert", EltwiseParams(), [half], (3,), "f32")), bits(want))


@pytest.mark.parametrize(("exponent", "mantissa"), [(8, 7), (5, 10), (5, 2), (8, 0), (4, 3), (8, 23)])
def test_reduce_precision_is_xla_s(exponent: int, mantissa: int) -> None:
    x = (RANDOM.standard_normal(3000) * 10.0 ** RANDOM.integers(-8, 8, 3000)).astype(np.float32)
    want = np.asarray(lax.reduce_precision(x, exponent, mantissa))
    got = run_kernel("reduce_precision", EltwiseParams((exponent, mantissa)), [x], x.shape, "f32")
    assert_array_equal(got, want)
