"""Collectives: groups become rows of flat process ids, `replica * partitions + partition`, whatever form they have.

The channel and `use_global_device_ids` decide how `replica_groups` are read, as in the specification under
`cross_replica`, `cross_partition`, `cross_replica_and_partition` and `flattened_ids`.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import SSAValue

from opscope.compiler.dialects.ttcore import ReduceTypeAttr
from opscope.compiler.ir.functions import AXES, MESH
from opscope.compiler.ops.ccl import COLLECTIVES, IDS
from opscope.compiler.passes.stablehlo_to_ttir.body import combination
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import element_type

REDUCING = ("all_reduce", "reduce_scatter")
REDUCE_TYPES = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
"""The op that joins two values -> tt-mlir's word."""
DIMS = {
    "all_gather": ("all_gather_dim", ""),
    "reduce_scatter": ("scatter_dimension", ""),
    "all_to_all": ("split_dimension", "concat_dimension"),
}
"""Op -> its attributes that name dims."""
LISTS = {
    "all_to_all": "replica_groups",
    "collective_broadcast": "replica_groups",
    "collective_permute": "source_target_pairs",
}
"""Op -> its attribute that lists devices, where tt-mlir keeps that in place of an axis."""


def _mesh(e: Emit) -> tuple[int, int]:
    """Returns the number of replicas and partitions of the module."""
    mesh = e.attr(MESH)
    replicas, partitions = mesh.get_values() if isinstance(mesh, DenseArrayBase) else (1, 1)
    return int(replicas), int(partitions)


def _rows(e: Emit, name: str) -> list[list[int]]:
    """Returns the rows of a dense attribute of two dims; -1 fills the empty places of a short group."""
    dense: Any = e.attr(name)
    if not hasattr(dense, "type"):
        raise e.refuse(f"expected groups as lists of devices, got {dense}; try a dense replica_groups")
    width = dense.type.get_shape()[1]
    values = [int(v) for v in dense.get_values()]
    return [values[i : i + width] for i in range(0, len(values), width)] if width else []


def _channel(e: Emit) -> int:
    match = re.search(r"handle = (-?\d+)", str(getattr(e.attr("channel_handle"), "text", "")))
    return int(match[1]) if match else 0


def groups_of(e: Emit, name: str) -> list[list[int]]:
    """Returns the groups of flat process ids, or the pairs of a permutation."""
    replicas, partitions = _mesh(e)
    channel = _channel(e)
    if name == "collective_permute":
        rows = _rows(e, "source_target_pairs")
    else:
        rows = _rows(e, "replica_groups")
        rows = [row for row in rows if row] or [
            list(range(partitions if channel > 0 and _one_kind(name) else replicas))
        ]
    if channel > 0 and e.attr("use_global_device_ids") is not None:
        return rows
    if channel > 0 and _one_kind(name):
        return [[-1 if p < 0 else r * partitions + p for p in row] for r in range(replicas) for row in rows]
    if channel > 0:
        return [[r * partitions + p for r in row if r >= 0 for p in range(partitions)] for row in rows]
    return [[-1 if r < 0 else r * partitions + p for r in row] for p in range(partitions) for row in rows]


def _one_kind(name: str) -> bool:
    """Whether an op with a channel communicates across partitions only."""
    return name in ("all_to_all", "collective_permute", "collective_broadcast")


def _collective(e: Emit) -> list[SSAValue]:
    name = e.op.name.removeprefix("stablehlo.")
    rows = groups_of(e, name)
    width = max((len(row) for row in rows), default=0)
    flat = [place for row in rows for place in (row + [-1] * (width - len(row)))]
    first, second = DIMS.get(name, ("", ""))
    dims = [e.ints(key)[0] if key else None for key in (first, second)]
    results = []
    for operand, result in zip(e.operands, e.op.results, strict=True):
        combine = combination(e.op.regions[0], element_type(result)) if name in REDUCING else None
        if combine in ("", "update"):
            raise e.refuse("expected a body of one op that joins two values, got another")
        results.append(
            e.emit(
                name,
                [operand],
                result.type,
                groups=flat,
                group_size=width,
                dim=dims[0],
                other_dim=dims[1],
                combine=combine,
                **_in_words(e, name, rows, combine),
            )
        )
    return results


def _in_words(e: Emit, name: str, rows: list[list[int]], combine: str | None) -> dict[str, Any]:
    """tt-mlir's attributes of a collective, where its words are asked for: the mesh's axis along which groups lie (None
    for groups along none, or uneven ones) and how values are joined."""
    if e.functions is None or not e.functions.named:
        return {}
    words: dict[str, Any] = {}
    if name in ("all_gather", "all_reduce", "reduce_scatter"):
        words["cluster_axis"] = cluster_axis(rows, _axes(e))
    elif name in LISTS:
        words[LISTS[name]] = e.attr(LISTS[name])
    if name == "all_to_all":
        words |= {"split_dim": e.ints("split_dimension")[0], "concat_dim": e.ints("concat_dimension")[0]}
        words["split_count"] = e.ints("split_count")[0]
    if combine in REDUCE_TYPES:
        words["reduce_type"] = ReduceTypeAttr.of(REDUCE_TYPES[combine])
    return words


def _axes(e: Emit) -> tuple[int, int] | None:
    """Rows and columns of the module's mesh; None if it names none."""
    axes = e.attr(AXES)
    if not isinstance(axes, DenseArrayBase):
        return None
    rows, columns = axes.get_values()
    return int(rows), int(columns)


def cluster_axis(groups: list[list[int]], axes: tuple[int, int] | None) -> int | None:
    """0 for groups of a column's devices, 1 for a row's; None for others. Without a mesh, neighbours make a row, one
    device alone a column, as in a line."""
    width = len(groups[0]) if groups else 0
    if width == 1:
        return next((at for at, size in enumerate(axes or (1, 0)) if size == 1), None)
    if width == 0 or any(len(group) != width or -1 in group for group in groups):
        return None
    columns = axes[1] if axes is not None else 0
    steps = {after - before for group in groups for before, after in itertools.pairwise(group)}
    if steps == {1} and columns in (0, width):
        return 1
    if len(steps) == 1 and (axes is None or (steps == {columns} and width == axes[0])):
        return 0
    return None


def _id(e: Emit) -> SSAValue:
    name = e.op.name.removeprefix("stablehlo.")
    return e.emit(name, [], e.result_type, groups=[], group_size=_mesh(e)[1])


for _name in COLLECTIVES:
    lowers(f"stablehlo.{_name}")(_collective)
for _name in IDS:
    lowers(f"stablehlo.{_name}")(_id)
