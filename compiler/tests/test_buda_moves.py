"""What no TM moves, on the Buda route: pickers, splices and depthwise products against XLA, planned and placed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.covered import covered
from opscope.compiler.buda.netlist.check import check
from opscope.compiler.buda.netlist.emit import netlist_of, to_yaml
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary as netlist_to_binary
from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import Lowered, lowered_function, pcc, run

NHWC = ("NHWC", "HWIO", "NHWC")


def relu(x: Any) -> Any:
    """Exact on the device, so that what follows is not the host's."""
    return jnp.maximum(x, 0)


def results(case: Lowered, board: str = "n150", every: bool = False) -> Any:
    """The result of a lowered function as planned, or every one; as netlist read back it has the same bits."""
    planned = plan(case.graph, budget_of(board))
    program = to_binary(planned, load_board(board))
    outs = run(program, case.queues)
    netlist = parse(to_yaml(netlist_of(planned, program)), "test")
    check(netlist)
    for read_back, out in zip(run(netlist_to_binary(netlist, board), case.queues), outs, strict=True):
        np.testing.assert_array_equal(read_back, out)
    return outs if every else outs[0]


MOVES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "slice of rows": (lambda x: x[5:40:3, :], (50, 70)),
    "slice of columns": (lambda x: x[:, 3:69:2], (50, 70)),
    "slice of both": (lambda x: x[7:, 33:34], (50, 70)),
    "slice of whole tiles": (lambda x: x[:, 32:, :64], (3, 64, 96)),
    "slice within a group": (lambda x: x.reshape(2, 5, 6, 40)[:, 1:4, 2:3], (2, 30, 40)),
    "reverse": (lambda x: x[::-1, :, ::-1], (3, 20, 40)),
    "pad": (lambda x: jax.lax.pad(x, 0.0, ((1, 2, 1), (0, 3, 0), (-2, 5, 2))), (3, 20, 40)),
    "pad with a number": (lambda x: jnp.pad(x, ((1, 0), (2, 3)), constant_values=-7.5), (20, 40)),
    "rows to columns": (lambda x: x.reshape(48, 64), (64, 48)),
    "rows into columns": (lambda x: x.reshape(10, 120), (50, 24)),
    "columns into rows": (lambda x: x.reshape(-1, 7), (3, 4, 21)),
    "matrices to rows": (lambda x: x.reshape(21, 40), (3, 7, 40)),
    "columns of whole tiles side by side": (lambda x: x.reshape(5, 3 * 64), (15, 64)),
    "columns of whole tiles apart": (lambda x: x.reshape(15, 64), (5, 3 * 64)),
    "a row": (lambda x: x.reshape(40, 3), (1, 120)),
    "heads of 20": (lambda x: x.reshape(9, 4, 20).transpose(1, 0, 2), (9, 80)),
    "all dims turned": (lambda x: x.transpose(3, 1, 0, 2), (3, 4, 5, 6)),
    "rows and columns change places": (lambda x: x.reshape(4, 6, 40).transpose(2, 0, 1), (24, 40)),
    "outer rows with columns": (lambda x: x.reshape(4, 6, 5, 8).transpose(2, 1, 0, 3).reshape(30, 32), (24, 40)),
    "repeat part of columns": (lambda x: jnp.repeat(x, 3, 1), (20, 15)),
    "repeat part of z": (lambda x: jnp.repeat(x, 4, 0), (3, 20, 40)),
    "repeat part of rows": (lambda x: jnp.broadcast_to(x.reshape(5, 1, 4, 9), (5, 3, 4, 9)).reshape(60, 9), (20, 9)),
    "tile": (lambda x: jnp.tile(x, (2, 3)), (20, 40)),
    "concat of columns": (lambda x: jnp.concatenate([x, x[:, :7], x], 1), (20, 40)),
    "concat of rows": (lambda x: jnp.concatenate([x, x[3:9]], 0), (20, 40)),
    "concat of matrices": (lambda x: jnp.concatenate([x, x[:1]], 0), (2, 20, 40)),
    "concat in a group": (
        lambda x: jnp.concatenate([x.reshape(2, 3, 4, 9), x.reshape(2, 3, 4, 9)[:, :, :1]], 2),
        (2, 12, 9),
    ),
    "ten parts": (lambda x: jnp.concatenate([x[:, i : i + 3] for i in range(10)], 1), (20, 40)),
    "stack": (lambda x: jnp.stack([x, x + x], 1), (20, 40)),
    "known rows": (lambda x: x[np.array([3, 3, 19, 0, -1])], (20, 40)),
    "known columns": (lambda x: x[:, np.array([39, 3, 3, 0])], (20, 40)),
    "known pairs": (lambda x: x[:, *np.triu_indices(5, 1)], (9, 5, 5)),
    "loop": (
        lambda x: jax.lax.fori_loop(0, 2, lambda i, y: jax.lax.dynamic_update_index_in_dim(y, -y[2 * i], i, 0), x),
        (6, 20),
    ),
    "windows of a maximum": (
        lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"),
        (2, 7, 6, 33),
    ),
    "padded maximum of negative numbers": (
        lambda x: jax.lax.reduce_window(-x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        (1, 8, 8, 8),
    ),
}
MOVES_HELD = {
    "slice of both": "slice of columns",
    "slice within a group": "slice of rows",
    "pad": "pad with a number",
    "rows to columns": "rows into columns",
    "columns into rows": "matrices to rows",
    "a row": "matrices to rows",
    "columns of whole tiles side by side": "columns of whole tiles apart",
    "all dims turned": "rows and columns change places",
    "outer rows with columns": "rows and columns change places",
    "repeat part of columns": "tile",
    "repeat part of z": "tile",
    "repeat part of rows": "tile",
    "concat of rows": "concat of columns",
    "concat of matrices": "concat of columns",
    "concat in a group": "concat of columns",
    "stack": "concat of columns",
    "known rows": "known columns",
    "known pairs": "known columns",
    "windows of a maximum": "padded maximum of negative numbers",
}
"""Moves along another dim, or of other sizes; all but a few lines of the compiler that they run are run by others."""


@pytest.mark.parametrize("name", covered(MOVES, MOVES_HELD))
def test_a_move_is_exact(name: str) -> None:
    function, shape = MOVES[name]
    case = lowered_function(lambda x: function(relu(x)), shape)
    expected = case.golden[0].astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(results(case).ravel(), expected.ravel())


def test_columns_of_whole_tiles_take_one_picker() -> None:
    for name in ("columns of whole tiles side by side", "columns of whole tiles apart"):
        function, shape = MOVES[name]
        case = lowered_function(lambda x, function=function: function(relu(x)), shape)
        assert [node.spec.type for node in case.graph.ops] == ["maximum", "sparse_matmul"]


def conv(x: Any, w: Any, stride: int = 1, pads: Any = "SAME", **options: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (stride, stride), pads, dimension_numbers=NHWC, **options)


SUMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "depthwise": (lambda x, w: conv(relu(x), w, 2, feature_group_count=40), ((1, 9, 8, 40), (3, 3, 1, 40))),
    "depthwise of three images": (lambda x, w: conv(relu(x), w, feature_group_count=5), ((3, 6, 5, 5), (3, 3, 1, 5))),
    "depthwise with a relu": (
        lambda x, w: relu(conv(relu(x), w, feature_group_count=70)),
        ((1, 6, 7, 70), (3, 1, 1, 70)),
    ),
    "groups that fill no tile": (lambda x, w: conv(x, w, feature_group_count=3), ((1, 7, 7, 36), (3, 3, 12, 21))),
    "two results per channel": (lambda x, w: conv(x, w, feature_group_count=6), ((1, 5, 6, 6), (3, 3, 1, 12))),
    "groups of one pixel": (lambda x, w: conv(x, w, feature_group_count=2), ((1, 5, 6, 40), (1, 1, 20, 34))),
    "two images": (lambda x, w: conv(relu(x), w, 2), ((2, 9, 7, 20), (3, 3, 20, 33))),
    "transposed": (
        lambda x, w: conv(relu(x), w, 1, ((1, 2), (1, 2)), lhs_dilation=(2, 2)),
        ((1, 5, 6, 20), (3, 3, 20, 33)),
    ),
    "negative padding": (lambda x, w: conv(relu(x), w, 1, ((-1, 0), (1, -2))), ((1, 8, 9, 20), (3, 2, 20, 33))),
    "sum pool": (
        lambda x: jax.lax.reduce_window(relu(x), 0.0, jax.lax.add, (1, 2, 3, 1), (1, 2, 2, 1), "SAME"),
        ((1, 7, 9, 40),),
    ),
    "groups of channels": (lambda x: relu(x).reshape(1, 5, 6, 8, 5).sum((1, 2, 4)), ((1, 5, 6, 40),)),
    "group norm": (
        lambda x: (lambda y: (y - y.mean((1, 2, 4), keepdims=True)) / jnp.sqrt(y.var((1, 2, 4), keepdims=True) + 1e-3))(
            relu(x).reshape(2, 5, 6, 8, 5)
        ).reshape(2, 5, 6, 40),
        ((2, 5, 6, 40),),
    ),
    "maximum over part of the rows": (lambda x: relu(x).reshape(3, 7, 20).max(1), ((21, 20),)),
    "softmax over part of the columns": (lambda x: jax.nn.softmax(jnp.tanh(x).reshape(9, 5, 8), -1), ((9, 40),)),
    "sum of all": (lambda x: relu(x).sum(), ((3, 7, 20),)),
    "a number over all": (lambda x: relu(x) * relu(x).sum(), ((3, 7, 20),)),
    "repeated heads": (
        lambda q, k: relu(q) @ jnp.broadcast_to(relu(k)[:, None], (2, 3, 20, 33)).reshape(6, 20, 33),
        ((6, 9, 20), (2, 20, 33)),
    ),
}


SUMS_HELD = {
    "groups that fill no tile": "groups of one pixel",
    "two results per channel": "depthwise",
    "two images": "depthwise of three images",
    "transposed": "negative padding",
    "group norm": "groups of channels",
    "softmax over part of the columns": "maximum over part of the rows",
    "a number over all": "sum of all",
}
"""Sums of other sizes, and those of which another is a step."""


@pytest.mark.parametrize("name", covered(SUMS, SUMS_HELD))
def test_sums_agree_with_xla(name: str) -> None:
    function, shapes = SUMS[name]
    case = lowered_function(function, *shapes)
    out, golden = results(case).ravel(), case.golden[0].ravel()
    assert out.size == golden.size
    if out.size > 1:
        assert pcc(out, golden) > 0.9995
    np.testing.assert_allclose(out, golden, atol=0.03 * np.abs(golden).max())


def chosen(x: Any, i: Any) -> Any:
    return relu(x)[i]


def added(x: Any, i: Any) -> Any:
    """Rows summed where they have the same number; 99 is outside."""
    return jnp.zeros((7, 40)).at[i].add(relu(x)[: len(i)]) + jnp.ones((7, 40)).at[i].add(1 - relu(x)[: len(i)])


@pytest.mark.parametrize("function", [chosen, added])
def test_rows_whose_numbers_only_a_run_knows(function: Callable[..., Any]) -> None:
    indices = np.array([3, 0, 3, -1, 99, 5], np.int32)
    case = lowered_function(function, (20, 40), whole=[indices])
    assert "matmul" in {node.spec.type for node in case.graph.ops}
    golden = np.asarray(case.golden[0]).ravel()
    out = results(case).ravel()
    np.testing.assert_allclose(out, golden, atol=0.02)
    if function is chosen:
        np.testing.assert_array_equal(out, golden.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("k", [pytest.param(1, marks=pytest.mark.slow), 3])  # quick: 3, the largest among them
def test_the_largest_and_their_places(k: int) -> None:
    """Of equal ones the first; with NumPy's stable sort as the judge."""
    numbers = (np.random.default_rng(0).integers(-4, 5, (9, 11)) / 4).astype(np.float32)
    case = lowered_function(lambda x: [y.astype(jnp.float32) for y in jax.lax.top_k(-x, k)], numbers.shape)
    queues = {
        name: numbers.reshape(content.shape) if name == "arg0" else content for name, content in case.queues.items()
    }
    values, places = results(replace(case, queues=queues), every=True)
    order = np.argsort(numbers, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(values.reshape(9, k), -np.take_along_axis(numbers, order, 1))
    np.testing.assert_array_equal(places.reshape(9, k), order)


@pytest.mark.slow  # quick: test_a_move_is_exact[loop], which is unrolled too
def test_a_loop_that_scans_is_unrolled() -> None:
    def scan(x: Any, w: Any) -> Any:
        def step(total: Any, row: Any) -> Any:
            new = jnp.tanh(total @ w + row)
            return new, new * 2

        last, rows = jax.lax.scan(step, jnp.zeros((1, 40)), relu(x))
        return last + rows.sum(0)

    case = lowered_function(scan, (5, 1, 40), (40, 40))
    assert sum(node.spec.type == "tanh" for node in case.graph.ops) == 5
    assert pcc(results(case), case.golden[0]) > 0.9995
