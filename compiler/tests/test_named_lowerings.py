"""StableHLO lowered in tt-mlir's words, run on the device and held to XLA: ops whose lowering depends on their form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from opscope.base.tests.covered import covered
from opscope.compiler import api
from opscope.compiler.against.ours import FRONT
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir import guard
from opscope.compiler.pipelines import pipeline
from opscope.simulator.api import Device

BOARD = api.load_board("n150")
DRAW = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return DRAW.integers(-8, 9, shape).astype(np.float32)  # exact in every format of the device


def integers(*shape: int, below: int) -> np.ndarray:
    return DRAW.integers(0, below, shape).astype(np.int32)


X, ROW_NUMBERS, ROWS = floats(5, 4, 6), np.array([3, 0, 2], np.int32), floats(3, 6)
TABLE, WHOLE = floats(5, 6), integers(5, 6, below=1000)
IMAGE, LINE, KERNEL, KERNEL_1D = floats(1, 5, 6, 2), floats(1, 7, 2), floats(2, 3, 2, 3), floats(3, 2, 4)


def pool(kind: Any, start: Any, size: tuple[int, ...], stride: tuple[int, ...]) -> Callable[..., Any]:
    return lambda *x: lax.reduce_window(x if len(x) > 1 else x[0], start, kind, size, stride, "VALID")


def turned(
    image: Any, kernel: Any, stride: tuple[int, ...], back: tuple[int, ...], layout: tuple[str, str, str]
) -> Any:
    edges = [(1, 1)] * len(back)
    return lax.conv_general_dilated(image, kernel, stride, edges, lhs_dilation=back, dimension_numbers=layout)


NHWC, NWC = ("NHWC", "HWIO", "NHWC"), ("NWC", "WIO", "NWC")
both_largest = pool(
    lambda a, b: (lax.max(a[0], b[0]), lax.max(a[1], b[1])), (-np.inf, -np.inf), (1, 2, 2, 1), (1, 2, 2, 1)
)
sums_of_four = pool(lax.add, 0.0, (1, 2, 2, 1), (1, 2, 2, 1))
CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "scatter of rows": (lambda x, i, u: x.at[i].set(u), (TABLE, ROW_NUMBERS, ROWS)),
    "scatter along the second dim": (lambda x, i, u: x.at[:, i].set(u), (X, ROW_NUMBERS, floats(5, 3, 6))),
    "scatter of one window": (
        lambda x, i, u: lax.dynamic_update_slice(x, u, (i[1], i[1])),
        (TABLE, ROW_NUMBERS, floats(2, 6)),
    ),
    "scatter of largest": (lambda x, i, u: x.at[i].max(u), (TABLE, ROW_NUMBERS, ROWS)),
    "scatter of smallest along the last dim": (lambda x, i, u: x.at[..., i].min(u), (X, ROW_NUMBERS, floats(5, 4, 3))),
    "scatter at points": (lambda x, i, u: x.at[i, i + 1].add(u), (TABLE, ROW_NUMBERS, floats(3))),
    "scatter in batches": (jax.vmap(lambda x, i, u: x.at[i].set(u)), (X, integers(5, 1, below=4), floats(5, 1, 6))),
    "scatter in batches along the last dim": (
        jax.vmap(lambda x, i, u: x.at[:, i].set(u)),
        (X, np.tile(np.array([4, 1], np.int32), (5, 1)), floats(5, 4, 2)),
    ),
    "rows added to zeros": (lambda i, u: jnp.zeros((5, 6)).at[i].add(u), (ROW_NUMBERS, ROWS)),
    "rows added to a table": (lambda x, i, u: x.at[i].add(u), (TABLE, ROW_NUMBERS, ROWS)),
    "pool of two operands": (both_largest, (IMAGE, floats(1, 5, 6, 2))),
    "pool of sums": (pool(lax.add, 0.0, (1, 2, 3, 1), (1, 1, 3, 1)), (IMAGE,)),
    "pad of unequal edges": (lambda x: lax.pad(x, 2.0, ((1, 0, 0), (0, 3, 0))), (TABLE,)),
    "pad between elements": (lambda x: lax.pad(x, 2.0, ((1, 0, 1), (0, 3, 0))), (TABLE,)),
    "pad by an integer that no float32 is": (
        lambda x: lax.pad(x, np.int32(16777217), ((1, 0, 0), (0, 3, 0))),
        (WHOLE,),
    ),
    "mean of windows": (lambda x: sums_of_four(x) / 4, (IMAGE,)),
    "mean of windows of a padded image": (
        lambda x: sums_of_four(lax.pad(x, 0.0, ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 0, 0)))) / 4,
        (IMAGE,),
    ),
    "sums of windows divided by what is not their size": (lambda x: sums_of_four(x) / 2, (IMAGE,)),
    "means of windows whose sums are read too": (lambda x: (sums_of_four(x), sums_of_four(x) / 4), (IMAGE,)),
    "a division of no pool": (lambda x: x / 4, (IMAGE,)),
    "edges repeated at both ends": (lambda x: jnp.take(x, np.array([0, 0, 0, 1, 2, 3, 3]), axis=1), (X,)),
    "edges repeated at the front": (lambda x: x[np.array([0, 0, 1, 2, 3, 4])], (X,)),
    "edges repeated at the back": (lambda x: x[..., np.array([0, 1, 2, 3, 4, 5, 5])], (X,)),
    "rows in an order that repeats no edge": (lambda x: x[np.array([0, 0, 2, 1, 3, 4])], (X,)),
    "running sum": (lambda x: jnp.cumsum(x, axis=1), (TABLE,)),
    "convolution turned around": (lambda x, w: turned(x, w, (1, 1), (2, 2), NHWC), (IMAGE, KERNEL)),
    "convolution of a line turned around": (lambda x, w: turned(x, w, (1,), (2,), NWC), (LINE, KERNEL_1D)),
    "convolution turned around, by steps of rows": (lambda x, w: turned(x, w, (2, 1), (2, 2), NHWC), (IMAGE, KERNEL)),
    "convolution turned around, by steps of columns": (
        lambda x, w: turned(x, w, (1, 3), (2, 2), NHWC),
        (IMAGE, KERNEL),
    ),
    "convolution of a line turned around, by steps": (
        lambda x, w: turned(x, w, (2,), (2,), NWC),
        (LINE, KERNEL_1D),
    ),
    "gather of rows": (lambda x, i: x[i], (TABLE, ROW_NUMBERS)),
    "gather of rows of integers": (lambda x, i: x[i], (WHOLE, np.array([[3, 0], [2, 4]], np.int32))),
    "gather of columns of integers": (lambda x, i: x[:, i], (WHOLE, ROW_NUMBERS)),
    "gather at points": (lambda x, i: x[i, i + 1], (TABLE, ROW_NUMBERS)),
    "gather of what lies between": (lambda x, i: x[i, :, i + 1], (X, ROW_NUMBERS)),
    "gather in batches": (jax.vmap(lambda x, i: x[i]), (X, integers(5, 3, below=4))),
    "gather of windows": (
        jax.vmap(lambda i: lax.dynamic_slice(jnp.asarray(TABLE), (i, 0), (2, 3))),
        (np.array([0, 3, 1], np.int32),),
    ),
}
"""What each computes, as JAX has it, and its arguments."""


def in_tt_mlirs_words(function: Callable[..., Any], arguments: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Results of the device for a function that is lowered by the named forms."""
    return run(jax.jit(function, keep_unused=True).lower(*arguments).as_text(), arguments)


def run(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of the device for a module that is lowered by the named forms."""
    module = guard.read(text)
    pipeline.run(pipeline.parse(FRONT), module)
    pipeline.run(pipeline.parse("ttir-to-ttnn-backend-pipeline"), module)
    return list(Device("n150").load(api.ttnn_to_flatbuffer(module, BOARD)).run(list(arguments)).outputs)


HELD = {
    "scatter along the second dim": "scatter of rows",
    "scatter of largest": "scatter of smallest along the last dim",
    "scatter in batches": "scatter of rows",
    "scatter in batches along the last dim": "scatter of smallest along the last dim",
    "rows added to a table": "rows added to zeros",
    "pad of unequal edges": "pad between elements",
    "mean of windows": "mean of windows of a padded image",
    "edges repeated at the front": "edges repeated at both ends",
    "edges repeated at the back": "edges repeated at both ends",
    "convolution turned around, by steps of rows": "convolution of a line turned around, by steps",
    "convolution turned around, by steps of columns": "convolution of a line turned around, by steps",
    "gather of rows": "gather of rows of integers",
    "gather of what lies between": "gather at points",
}
"""Forms along another dim, of another size; every line of the compiler that they run is run by others."""


@pytest.mark.parametrize("name", covered(CASES, HELD))
def test_the_form_computes_what_xla_does(name: str) -> None:
    function, arguments = CASES[name]
    expected = jax.tree.leaves(jax.jit(function)(*arguments))
    got = in_tt_mlirs_words(function, arguments)
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(mine, np.asarray(theirs))


COMPOSITE = """
func.func @main({arguments}) -> ({results}) {{
  %0{count} = stablehlo.composite "tenstorrent.{name}" {operands} {{composite_attributes = {{{attributes}}}, decomposition = @other}} : ({types}) -> ({results})
  return {returned} : {results}
}}
func.func private @other({arguments}) -> ({results}) {{
  {none}
}}
"""  # noqa: E501


def of_composite(name: str, attributes: str, inputs: list[np.ndarray], results: list[str]) -> list[np.ndarray]:
    """Results of the device for a composite whose decomposition must not be taken: it gives zeros."""
    types = [f"tensor<{'x'.join(map(str, x.shape))}x{'f32' if x.dtype == np.float32 else 'i32'}>" for x in inputs]
    zeros = [
        f"%z{n} = stablehlo.constant dense<0{'.0' if 'f32' in kind else ''}> : {kind}" for n, kind in enumerate(results)
    ]
    many = len(results) > 1
    text = COMPOSITE.format(
        arguments=", ".join(f"%a{n}: {kind}" for n, kind in enumerate(types)),
        results=", ".join(results),
        name=name,
        count=f":{len(results)}" if many else "",
        attributes=attributes,
        types=", ".join(types),
        operands=", ".join(f"%a{n}" for n in range(len(inputs))),
        returned=", ".join(f"%0#{n}" if many else "%0" for n in range(len(results))),
        none="\n  ".join([*zeros, f"return {', '.join(f'%z{n}' for n in range(len(results)))} : {', '.join(results)}"]),
    )
    return run(text, inputs)


def test_composites_of_tt_mlir_are_its_ops() -> None:
    line = np.array([[3, 9, 1, 7, 5, 2], [8, 4, 6, 0, 10, 12]], np.float32)
    values, places = -np.sort(-line)[:, :2], np.argsort(-line)[:, :2]
    two, words = ["tensor<2x2xf32>", "tensor<2x2xi32>"], "k = 2 : i64, dim = -1 : i64"
    for got, expected in zip(of_composite("topk", words, [line], two), (values, places), strict=True):
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(of_composite("topk_values", words, [line], two[:1])[0], values)
    np.testing.assert_array_equal(of_composite("topk_indices", words, [line], two[1:])[0], places)
    with pytest.raises(StageFailure, match="expected the largest along the last dim, got dim -1, largest False"):
        of_composite("topk_values", f"{words}, largest = false", [line], two[:1])
    assert not of_composite("topk_values", "dim = -1 : i64", [line], two[:1])[0].any(), "no k: its decomposition"
    for x, at, dim in (
        (line, integers(2, 3, below=6), 1),
        (line, integers(1, 6, below=2), 0),
        (line[0], integers(4, below=6), 0),
        (line[0], integers(4, below=6), -1),
    ):
        kind = f"tensor<{'x'.join(map(str, at.shape))}xf32>"
        got = of_composite("gather", f"dim = {dim} : i64", [x, at], [kind])[0]
        np.testing.assert_array_equal(got, np.take_along_axis(x, at, dim))


def test_uniform_numbers_lie_between_their_bounds() -> None:
    text = """
    func.func @main() -> tensor<64x64xf32> {
      %low = stablehlo.constant dense<2.0> : tensor<f32>
      %high = stablehlo.constant dense<3.0> : tensor<f32>
      %shape = stablehlo.constant dense<64> : tensor<2xi64>
      %0 = stablehlo.rng %low, %high, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<64x64xf32>
      return %0 : tensor<64x64xf32>
    }
    """  # noqa: E501
    (numbers,) = run(text, [])
    assert 2 <= numbers.min() < 2.05
    assert 2.95 < numbers.max() < 3.01
    assert len(np.unique(numbers)) > 1000


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (
            lambda x, i, u: lax.scatter_sub(x, i[:, None], u, lax.ScatterDimensionNumbers((1,), (0,), (0,))),
            (TABLE, ROW_NUMBERS, ROWS),
            "expected a body that is one of",
        ),
        (
            pool(lambda a, b: (lax.max(a[0], b[0]), lax.mul(a[1], b[1])), (-np.inf, 1.0), (1, 2, 2, 1), (1, 2, 2, 1)),
            (IMAGE, IMAGE),
            "expected a pool over two dims for each operand",
        ),
        (
            pool(lambda a, b: (lax.max(a[0], b[0]), lax.max(a[1], b[1])), (-np.inf, 0.0), (1, 2, 2, 1), (1, 2, 2, 1)),
            (IMAGE, IMAGE),
            "expected a pool over two dims for each operand",
        ),
    ],
    ids=["scatter that subtracts", "pool of products", "pool from zero"],
)
def test_what_has_no_form_is_refused(
    function: Callable[..., Any], arguments: tuple[np.ndarray, ...], expected: str
) -> None:
    with pytest.raises(StageFailure, match=expected):
        in_tt_mlirs_words(function, arguments)
