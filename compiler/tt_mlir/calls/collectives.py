"""Ops between the chips of a mesh: groups lie along an axis of it, or one chip sends to another."""

from __future__ import annotations

import math

from opscope.compiler.target.program import CollectiveParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits

_JOINED_BY = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}
"""tt-mlir's word for a reduction -> the kernel that joins two values."""


def _groups(emit: Emit) -> tuple[tuple[int, ...], int]:
    """Chips along the op's axis, group after group, and how many a group has; without an axis all are one."""
    emit.attributes.skip("num_links", "topology")  # how it goes over the links, not what
    axis, chips = emit.attributes.get("cluster_axis"), math.prod(emit.mesh)
    if axis is None:
        return tuple(range(chips)), chips
    emit.only(0 <= axis < len(emit.mesh), f"expected an axis of the mesh {emit.mesh}, got {axis}")
    size, step = emit.mesh[axis], math.prod(emit.mesh[axis + 1 :])
    firsts = [chip for chip in range(chips) if chip // step % size == 0]
    return tuple(first + step * place for first in firsts for place in range(size)), size


def _dim(emit: Emit, name: str) -> int:
    return emit.attributes[name] % len(emit.desc(emit.inputs[0]).shape)


def _join(emit: Emit) -> str:
    reduction = emit.attributes["reduce_type"]
    emit.only(reduction in _JOINED_BY, f"expected a reduction of {', '.join(_JOINED_BY)}, got {reduction}")
    return _JOINED_BY[reduction]


@emits("all_reduce")
def all_reduce(emit: Emit) -> None:
    """The group's tensors joined element by element."""
    params = CollectiveParams(*_groups(emit), combine=_join(emit))
    emit.call("all_reduce", emit.inputs, emit.results, params, emit.numerics())


@emits("reduce_scatter")
def reduce_scatter(emit: Emit) -> None:
    """This chip's share of the group's tensors joined."""
    params = CollectiveParams(*_groups(emit), dim=_dim(emit, "scatter_dim"), combine=_join(emit))
    emit.call("reduce_scatter", emit.inputs, emit.results, params, emit.numerics())


@emits("all_gather")
def all_gather(emit: Emit) -> None:
    """The group's tensors one after another along a dim."""
    emit.call(
        "all_gather", emit.inputs, emit.results, CollectiveParams(*_groups(emit), dim=_dim(emit, "all_gather_dim"))
    )


@emits("mesh_partition")
def mesh_partition(emit: Emit) -> None:
    """This chip's share, along a dim, of what all chips of its group have."""
    emit.call("mesh_partition", emit.inputs, emit.results, CollectiveParams(*_groups(emit), dim=_dim(emit, "dim")))


@emits("point_to_point")
def point_to_point(emit: Emit) -> None:
    """One chip gets the tensor of another; what the others have, the second operand says."""
    pair = []
    for name in ("sender_coord", "receiver_coord"):
        coordinates = emit.attributes[name]
        inside = len(coordinates) == len(emit.mesh) and all(
            0 <= at < size for at, size in zip(coordinates, emit.mesh, strict=True)
        )
        emit.only(inside, f"expected a chip of the mesh {emit.mesh}, got {coordinates}")
        pair.append(sum(at * math.prod(emit.mesh[axis + 1 :]) for axis, at in enumerate(coordinates)))
    emit.call("collective_permute", emit.inputs, emit.results, CollectiveParams(tuple(pair), 2))
