"""Device cases of our own for ops of which neither the specification's stored cases nor `suite:ops` has one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler import api
from compiler.tests import programs
from compiler.tests.conformance import host_ops
from simulator.api import Device

X = programs.random((2, 3))
N = np.array([0, 1, 255, -1, 2**30], np.int32)
SHAPE = "%s = stablehlo.constant dense<[2, 4, 3]> : tensor<3xi32>\n"

CASES: dict[str, tuple[str, str, list[np.ndarray], Callable[..., Any]]] = {
    "count_leading_zeros": (
        "%0 = stablehlo.count_leading_zeros %n : tensor<5xi32>\nreturn %0 : tensor<5xi32>",
        "(%n: tensor<5xi32>) -> tensor<5xi32>", [N],
        lambda n: np.array([32 - int(v).bit_length() for v in n.view(np.uint32)], np.int32),
    ),
    "optimization_barrier": (
        """%0:2 = stablehlo.optimization_barrier %x, %x : tensor<2x3xf32>, tensor<2x3xf32>
           %1 = stablehlo.add %0#0, %0#1 : tensor<2x3xf32>
           return %1 : tensor<2x3xf32>""",
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>", [X], lambda x: x + x,
    ),
    "dynamic_broadcast_in_dim": (
        SHAPE + """%0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 2]
             : (tensor<2x3xf32>, tensor<3xi32>) -> tensor<?x?x?xf32>
           return %0 : tensor<?x?x?xf32>""",
        "(%x: tensor<2x3xf32>) -> tensor<?x?x?xf32>", [X], lambda x: np.broadcast_to(x[:, None], (2, 4, 3)),
    ),
    "dynamic_iota": (
        SHAPE + "%0 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<3xi32>) -> tensor<?x?x?xi32>\n"
        "return %0 : tensor<?x?x?xi32>",
        "() -> tensor<?x?x?xi32>", [],
        lambda: np.broadcast_to(np.arange(4, dtype=np.int32)[:, None], (2, 4, 3)),
    ),
    "dynamic_pad": (
        """%l = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
           %h = stablehlo.constant dense<[0, 2]> : tensor<2xi32>
           %i = stablehlo.constant dense<0> : tensor<2xi32>
           %v = stablehlo.constant dense<7.0> : tensor<f32>
           %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %i
             : (tensor<2x3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
           return %0 : tensor<?x?xf32>""",
        "(%x: tensor<2x3xf32>) -> tensor<?x?xf32>", [X],
        lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7),
    ),
    "dynamic_gather": (
        """%i = stablehlo.constant dense<[[1], [0], [1]]> : tensor<3x1xi32>
           %z = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
           %0 = "stablehlo.dynamic_gather"(%x, %i, %z) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}>
             : (tensor<2x3xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x3xf32>
           return %0 : tensor<3x3xf32>""",
        "(%x: tensor<2x3xf32>) -> tensor<3x3xf32>", [X], lambda x: x[[1, 0, 1]],
    ),
    "dynamic_conv": (
        """%p = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi32>
           %0 = "stablehlo.dynamic_conv"(%a, %k, %p) <{
               batch_group_count = 1 : i64, feature_group_count = 1 : i64,
               dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>}>
             : (tensor<1x5x1xf32>, tensor<3x1x1xf32>, tensor<1x2xi32>) -> tensor<1x5x1xf32>
           return %0 : tensor<1x5x1xf32>""",
        "(%a: tensor<1x5x1xf32>, %k: tensor<3x1x1xf32>) -> tensor<1x5x1xf32>",
        [programs.random((1, 5, 1), 1), programs.random((3, 1, 1), 2)],
        lambda a, k: np.correlate(a.ravel(), k.ravel(), "same").reshape(1, 5, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_right_on_the_device(name):
    body, signature, inputs, formula = CASES[name]
    data = api.compile(programs.module(body, signature), programs.BOARD)
    assert not host_ops(data)
    (got,) = Device("n150").load(data).run(inputs).outputs
    np.testing.assert_allclose(got, formula(*inputs), rtol=4e-3, atol=4e-3)


def test_a_composite_is_its_decomposition():
    source = """func.func private @twice(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.add %x, %x : tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.composite "mine.twice" %x {decomposition = @twice} : (tensor<2x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    np.testing.assert_array_equal(programs.simulate(source, X)[0], X + X)


def test_what_starts_and_is_awaited_is_computed_where_it_starts():
    source = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = "stablehlo.async_start"(%x) ({
        ^bb0(%a: tensor<2x3xf32>):
          %2 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64,
            replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
          stablehlo.return %2 : tensor<2x3xf32>
      }) : (tensor<2x3xf32>) -> !stablehlo.future<tensor<2x3xf32>>
      %1 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<2x3xf32>>) -> tensor<2x3xf32>
      %3 = stablehlo.add %1, %x : tensor<2x3xf32>
      return %3 : tensor<2x3xf32>
    }"""
    np.testing.assert_array_equal(programs.simulate(source, X)[0], X + X)


def test_every_op_that_counts_as_lowered_has_a_device_case():
    """A stored one (docs/conformance.md), one of `suite:ops`, or one of ours."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "conformance.md").read_text(encoding="utf-8")
    stored = {found[1] for found in re.finditer(r"^\| `stablehlo\.(\w+)` \| [1-9]", page, re.MULTILINE)}
    files = [*(root / "models").glob("op_*.py"), *(root / "compiler" / "tests").glob("test_*.py")]
    written = set(re.findall(r"\w+", " ".join(path.read_text(encoding="utf-8") for path in files)))
    lowered = {row.stablehlo.removeprefix("stablehlo.") for row in api.op_table() if row.lowered}
    assert {op for op in lowered if op and "." not in op} <= stored | written
