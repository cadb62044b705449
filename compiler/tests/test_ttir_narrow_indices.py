"""64-bit integers: narrowed where nothing is lost or only a place is said, refused where a value could change."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir.functions import functions
from opscope.compiler.passes.ttir_narrow_indices import NOTE
from opscope.compiler.target import binary
from opscope.compiler.tests import programs
from opscope.compiler.tests.programs import random
from opscope.simulator.api import Device

BIG = 2**40


def wide(function, *args):
    with jax.enable_x64(True):
        return programs.stablehlo(function, *args), [
            np.asarray(r) for r in jax.tree.leaves(programs.jit(function)(*args))
        ]


def check(function, *args):
    source, want = wide(function, *args)
    for got, golden in zip(programs.simulate(source, *args), want, strict=True):
        np.testing.assert_array_equal(got, golden)
    return api.stablehlo_to_ttir(source)


GATHER = """func.func @main(%t: tensor<12x3xf32>, %i: tensor<6x1x{kind}>) -> (tensor<6x3xf32>, tensor<12x3xf32>) {{
  %0 = "stablehlo.gather"(%t, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}}> :
    (tensor<12x3xf32>, tensor<6x1x{kind}>) -> tensor<6x3xf32>
  %1 = "stablehlo.scatter"(%t, %i, %0) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %2 : tensor<f32>
  }}) : (tensor<12x3xf32>, tensor<6x1x{kind}>, tensor<6x3xf32>) -> tensor<12x3xf32>
  return %0, %1 : tensor<6x3xf32>, tensor<12x3xf32>
}}"""


@pytest.mark.parametrize(("kind", "low"), [("i64", -BIG), ("ui64", 2**63 + 1)])
def test_indices_far_outside_32_bits(kind, low):
    """Clamped where they are read at, dropped where they are written at: as without narrowing."""
    table, source = random((12, 3)), GATHER.format(kind=kind)
    rows = np.array([0, 3, 11, BIG, 2**32 + 1, low % 2**64], np.uint64)
    rows = rows.astype(np.int64 if kind == "i64" else np.uint64)
    at = [min(max(int(r), 0), 11) for r in rows]
    read, written = programs.simulate(source, table, rows[:, None])
    np.testing.assert_array_equal(read, table[at])
    want = table.copy()
    want[[0, 3, 11]] *= 2
    np.testing.assert_allclose(written, want, rtol=1e-6)
    main = next(iter(functions(api.stablehlo_to_ttir(source))))
    assert NOTE in main.attributes


def test_constant_indices_saturate():
    source = """func.func @main(%t: tensor<9xf32>) -> tensor<2xf32> {
      %i = stablehlo.constant dense<[4294967298, -4294967290]> : tensor<2xi64>
      %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
        start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> :
        (tensor<9xf32>, tensor<2xi64>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    table = random((9,))
    np.testing.assert_array_equal(programs.simulate(source, table)[0], table[[8, 0]])


def test_masks_of_places_outside():
    rows = np.array([0, 3, 11, 12, -1, -12, -13, 99], np.int32)
    check(lambda t, i: t.at[i].get(mode="fill", fill_value=7, wrap_negative_indices=False), random((12, 3)), rows)


def test_slices_at_64_bit_starts():
    x, update = np.arange(9, dtype=np.int32), np.arange(3, dtype=np.int32)
    source = """func.func @main(%x: tensor<9xi32>, %u: tensor<3xi32>, %s: tensor<i64>)
        -> (tensor<3xi32>, tensor<9xi32>) {
      %0 = stablehlo.dynamic_slice %x, %s, sizes = [3] : (tensor<9xi32>, tensor<i64>) -> tensor<3xi32>
      %1 = stablehlo.dynamic_update_slice %x, %u, %s : (tensor<9xi32>, tensor<3xi32>, tensor<i64>) -> tensor<9xi32>
      return %0, %1 : tensor<3xi32>, tensor<9xi32>
    }"""
    for start in (0, 2, 99, -1, BIG, -BIG, 2**32 + 1):
        at = min(max(start, 0), 6)
        read, written = programs.simulate(source, x, update, np.int64(start))
        np.testing.assert_array_equal(read, x[at : at + 3])
        np.testing.assert_array_equal(written, np.r_[x[:at], update, x[at + 3 :]])


def test_an_index_of_32_bits_that_was_widened_is_exact():
    check(lambda t, i: t[i.astype(jnp.int64)], random((5, 2)), np.array([4, 0, 2], np.uint32))
    check(lambda i: i < 5, np.array([BIG, -BIG, 4, 5, 6, 2**32 + 1], np.int64))
    check(lambda i: (i.astype(jnp.int64) * 3 + 1 < 5).astype(jnp.float32), np.array([-4, 0, 1, 9], np.int8))


@pytest.mark.parametrize(
    "function",
    [
        lambda i: i + 1,
        lambda i: i < i[::-1],
        lambda i: i * 3 < 5,
        lambda i: i.astype(jnp.int32),
        lambda i: i.astype(jnp.int32).astype(jnp.float32),
        lambda i: (jnp.arange(4)[i % 4], i == i[::-1]),
    ],
    ids=["returned", "compared", "computed", "converted", "converted twice", "both"],
)
def test_values_are_never_narrowed(function):
    source, _ = wide(function, np.array([1, 2, BIG], np.int64))
    with pytest.raises(StageFailure) as caught:
        api.compile(source, programs.BOARD)
    assert caught.value.kind == "never"
    assert "i64" in caught.value.message


def test_a_known_value_that_is_returned_with_another_sign_keeps_its_64_bits():
    source = """func.func @main(%x: tensor<2xi8>) -> tensor<2xui64> {
      %0 = stablehlo.convert %x : (tensor<2xi8>) -> tensor<2xi64>
      %1 = stablehlo.multiply %0, %0 : tensor<2xi64>
      %2 = stablehlo.convert %1 : (tensor<2xi64>) -> tensor<2xui64>
      return %2 : tensor<2xui64>
    }"""
    kinds = [str(op.results[0].type.element_type) for op in api.stablehlo_to_ttir(source).walk() if op.results]
    assert kinds == ["i64", "i64", "ui64"]


def test_the_binary_says_so():
    source, _ = wide(lambda t, i: t[i], random((5, 2)), np.array([1], np.int64))
    main = binary.read(api.compile(source, programs.BOARD)).programs[0]
    (narrowed,) = [main.tensors[t] for t in main.inputs if main.tensors[t].element_type == "i64"]
    assert narrowed.data_format == "Int64"
    assert {d.data_format for d in main.tensors if d.buffer_type != "system_memory"} <= {"Float32", "Int32", "UInt8"}


@pytest.mark.parametrize("expression", [lambda i: i % 5, lambda i: i * 2**31, lambda i: i // 2**39, lambda i: i + BIG])
def test_arithmetic_that_saturation_would_change_is_refused(expression):
    """The index is in bounds although what it is computed from is not."""
    source, _ = wide(
        lambda t, i: jax.lax.dynamic_index_in_dim(t, expression(i)[0]), random((8, 2)), np.array([BIG + 3])
    )
    with pytest.raises(StageFailure) as caught:
        api.compile(source, programs.BOARD)
    assert caught.value.kind == "never"


def test_a_step_from_a_place_far_outside_stays_outside():
    rows = random((8, 2))
    source, _ = wide(lambda t, i: jax.lax.dynamic_index_in_dim(t, i + 5), rows, np.int64(2))
    program = Device("n150").load(api.compile(source, programs.BOARD))
    for far in (2**63 - 1, -(2**63), 2**31 - 3, -(2**31) + 3, 2**30 - 1):
        (row,) = program.run([rows, np.int64(far)]).outputs
        np.testing.assert_array_equal(row, rows[7:8] if 0 < far < 2**63 - 5 else row)


def test_a_float_has_no_range():
    """An infinite float that becomes a 64-bit integer is refused for its type, as ONNX's select_last_index was not."""
    source, _ = wide(lambda i, x: i + jnp.where(x > 0, -jnp.inf, x).astype(jnp.int64), np.arange(3), np.ones(3, "f4"))
    with pytest.raises(StageFailure) as failure:
        api.compile(source, programs.BOARD)
    assert failure.value.kind == "never"
