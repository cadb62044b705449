"""Rows of the table for ops between chips: each chip's result by NumPy, for groups along either axis of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tt_mlir.program import tt_mlir_program
from opscope.compiler.tt_mlir.tests.ttnn_text import DEVICE, function, kind, module, one_op
from opscope.simulator.api import Device

X = [np.random.default_rng(chip).standard_normal((4, 6)).astype(np.float32) for chip in range(8)]
GROUPS = {0: [(0, 4), (1, 5), (2, 6), (3, 7)], 1: [(0, 1, 2, 3), (4, 5, 6, 7)]}
"""Axis of a mesh of 2 x 4 -> the chips along it."""


def on_mesh(text: str, mesh: str = "2x4") -> str:
    meshes = f'attributes {{ttcore.meshes = #ttcore.meshes<[<"mesh" = {mesh}>]>}}'
    text = text.replace("builtin.module {", f"builtin.module {meshes} {{")
    return text.replace("<mesh_shape 1x1>", f"<mesh_shape {mesh}>")


def run(text: str, inputs: Sequence[Sequence[np.ndarray]], mesh: str = "2x4") -> list[np.ndarray]:
    binary = tt_mlir_program(on_mesh(text, mesh), load_board("t3000")).binary
    return [each.outputs[0] for each in Device("t3000").load_decoded(binary).run_mesh(inputs)]


def joined(join: np.ufunc) -> Callable[[list[np.ndarray], int], np.ndarray]:
    return lambda parts, place: join.reduce(parts)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("op", "attributes", "shape", "formula"),
    [
        ("all_reduce", "reduce_type = #ttcore.reduce_type<max>", (4, 6), joined(np.maximum)),
        ("all_reduce", "reduce_type = #ttcore.reduce_type<min>", (4, 6), joined(np.minimum)),
        ("all_gather", "all_gather_dim = 1 : si32", None, lambda parts, place: np.concatenate(parts, 1)),
        (
            "reduce_scatter",
            "reduce_type = #ttcore.reduce_type<max>, scatter_dim = -2 : si32",
            None,
            lambda parts, place: np.split(np.maximum.reduce(parts), len(parts))[place],
        ),
        ("mesh_partition", "dim = 0 : si32", None, lambda parts, place: np.split(parts[place], len(parts))[place]),
    ],
)
def test_groups_lie_along_an_axis(
    op: str, attributes: str, shape: tuple[int, ...] | None, formula: Callable[..., np.ndarray], axis: int
) -> None:
    wanted = {c: formula([X[o] for o in group], at) for group in GROUPS[axis] for at, c in enumerate(group)}
    words = f"cluster_axis = {axis} : ui32, {attributes}"
    text = one_op(f"ttnn.{op}", words, [kind((4, 6))], [kind(shape or wanted[0].shape)])
    for chip, got in enumerate(run(text, [[x] for x in X])):
        assert_array_equal(got, wanted[chip])


def test_one_chip_sends_and_the_others_keep_what_they_have() -> None:
    words = "receiver_coord = array<i64: 1, 0>, sender_coord = array<i64: 0, 3>"
    text = one_op("ttnn.point_to_point", words, [kind((4, 6))] * 2, [kind((4, 6))])
    for chip, got in enumerate(run(text, [[x, -x] for x in X])):
        assert_array_equal(got, X[3] if chip == 4 else -X[chip])


def test_what_is_computed_once_is_each_chips_own() -> None:
    lines = (
        '%c = "ttnn.constant"(%device) <{value = dense<[[5, 7]]> : tensor<1x2xui32>}> '
        f": (!ttnn.device) -> {kind((1, 2), 'ui32')}\n"
        '        %p = "ttnn.mesh_partition"(%c) <{cluster_axis = 1 : ui32, dim = 1 : si32}> '
        f": ({kind((1, 2), 'ui32')}) -> {kind((1, 1), 'ui32')}"
    )
    one = kind((1, 1), "ui32")
    text = module(
        function("once", lines, [], [one], "%p", private=True),
        function("main", f"%r = ttcore.load_cached(@once, []) : () -> {one}", [], [one], "%r"),
    )
    assert [int(got.item()) for got in run(text, [[], []], "1x2")] == [5, 7]


def test_what_is_not_known_is_refused() -> None:
    reduced = one_op(
        "ttnn.all_reduce",
        "cluster_axis = 1 : ui32, reduce_type = #ttcore.reduce_type<std>",
        [kind((4, 6))],
        [kind((4, 6))],
    )
    with pytest.raises(StageFailure, match="expected a reduction of sum, max, min, prod, got std"):
        run(reduced, [[x] for x in X])
    axis = one_op(
        "ttnn.all_gather", "cluster_axis = 2 : ui32, all_gather_dim = 0 : si32", [kind((4, 6))], [kind((4, 6))]
    )
    with pytest.raises(StageFailure, match=r"expected an axis of the mesh \(2, 4\), got 2"):
        run(axis, [[x] for x in X])
    away = "receiver_coord = array<i64: 2, 0>, sender_coord = array<i64: 0, 3>"
    sent = one_op("ttnn.point_to_point", away, [kind((4, 6))] * 2, [kind((4, 6))])
    with pytest.raises(StageFailure, match=r"expected a chip of the mesh \(2, 4\), got \(2, 0\)"):
        run(sent, [[x, x] for x in X])
    part = on_mesh(one_op("ttnn.neg", "", [kind((4, 6))], [kind((4, 6))])).replace("mesh_shape 2x4", "mesh_shape 1x2")
    assert DEVICE not in part
    with pytest.raises(StageFailure, match="expected the module's mesh 2x4, got #ttnn<mesh_shape 1x2>"):
        tt_mlir_program(part, load_board("t3000"))
    several = on_mesh(one_op("ttnn.neg", "", [kind((4, 6))], [kind((4, 6))]), '2x4>, <"other" = 1x8')
    with pytest.raises(CompilerInputError, match="expected one mesh, got 1x8, 2x4"):
        tt_mlir_program(several, load_board("t3000"))
