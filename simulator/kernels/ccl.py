"""Collectives: kernels that read the tensors of all chips of the mesh at the same place of the program."""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.program import CollectiveParams, EltwiseParams
from opscope.compiler.target.system_desc import board_with
from opscope.simulator.errors import MeshError
from opscope.simulator.kernels.registry import KERNELS, PASS, Call, Images, kernel, params_of


def _group(params: CollectiveParams, chip: int) -> list[int]:
    """The chips of this chip's group, itself among them. Raises ValueError if it is in none."""
    size = max(params.group_size, 1)
    rows = [params.groups[i : i + size] for i in range(0, len(params.groups), size)]
    group = next((row for row in rows if chip in row), None)
    if group is None:
        raise ValueError(f"chip {chip} to be in one of the groups {rows}")
    return [other for other in group if other >= 0]


def _members(images: Images, call: Call) -> tuple[CollectiveParams, list[int], list[np.ndarray]]:
    params: CollectiveParams = params_of(call, CollectiveParams)
    everyone = call.mesh.exchange(images[0])
    group = _group(params, call.mesh.chip)
    needed = max(group) + 1
    if needed > len(everyone):
        board = board_with(needed)
        hint = f"--arch {board}" if board else "a larger mesh"
        raise MeshError(f"mesh: expected {needed} chips for group {group}, got {len(everyone)}; try {hint}")
    return params, group, [everyone[other] for other in group]


def _took(name: str, chips: int, call: Call) -> None:
    """Counts what the links moved for this chip."""
    call.mesh.links.take(name, chips, call.inputs[0], call.outputs[0])


def _joined(params: CollectiveParams, parts: list[np.ndarray], call: Call) -> np.ndarray:
    """All parts by the elementwise kernel that the program names, in the order of the group."""
    desc = call.inputs[0]
    joint = Call(EltwiseParams(), call.numerics, (desc, desc), (desc,))
    total = parts[0]
    for part in parts[1:]:
        result = KERNELS[params.combine].function([total, part], joint)
        total = result[0] if isinstance(result, list) else result
    return total


@kernel("all_reduce", CollectiveParams, cycles=PASS)
def all_reduce(images: Images, call: Call) -> np.ndarray:
    """The group's tensors, joined element by element."""
    params, group, parts = _members(images, call)
    _took("all_reduce", len(group), call)
    return _joined(params, parts, call)


@kernel("reduce_scatter", CollectiveParams, cycles=PASS)
def reduce_scatter(images: Images, call: Call) -> np.ndarray:
    """This chip's share, along `dim`, of the group's tensors joined."""
    params, group, parts = _members(images, call)
    _took("reduce_scatter", len(group), call)
    return np.split(_joined(params, parts, call), len(group), params.dim)[group.index(call.mesh.chip)]


@kernel("all_gather", CollectiveParams, unit="move")
def all_gather(images: Images, call: Call) -> np.ndarray:
    """The group's tensors one after another along `dim`."""
    params, group, parts = _members(images, call)
    _took("all_gather", len(group), call)
    return np.concatenate(parts, params.dim)


@kernel("all_to_all", CollectiveParams, unit="move")
def all_to_all(images: Images, call: Call) -> np.ndarray:
    """From each member the share along `dim` that is this chip's, one after another along `other_dim`."""
    params, group, parts = _members(images, call)
    place = group.index(call.mesh.chip)
    _took("all_to_all", len(group), call)
    return np.concatenate([np.split(part, len(group), params.dim)[place] for part in parts], params.other_dim)


@kernel("collective_broadcast", CollectiveParams, unit="move")
def collective_broadcast(images: Images, call: Call) -> np.ndarray:
    """The tensor of the group's first chip; zeros on a chip that is in no group."""
    params: CollectiveParams = params_of(call, CollectiveParams)
    everyone = call.mesh.exchange(images[0])
    if call.mesh.chip not in params.groups:
        return np.zeros_like(images[0])
    first = _group(params, call.mesh.chip)[0]
    _took("collective_broadcast", 2 if first != call.mesh.chip else 1, call)
    return everyone[first]


@kernel("mesh_partition", CollectiveParams, unit="move")
def mesh_partition(images: Images, call: Call) -> np.ndarray:
    """This chip's share, along `dim`, of its own tensor."""
    params: CollectiveParams = params_of(call, CollectiveParams)
    group = _group(params, call.mesh.chip)
    return np.split(images[0], len(group), params.dim)[group.index(call.mesh.chip)]


@kernel("collective_permute", CollectiveParams, unit="move", arity=(1, 2))
def collective_permute(images: Images, call: Call) -> np.ndarray:
    """The tensor of the chip that sends to this one; where none does its own second operand, or else zeros."""
    params: CollectiveParams = params_of(call, CollectiveParams)
    everyone = call.mesh.exchange(images[0])
    sources = dict(zip(params.groups[1::2], params.groups[::2], strict=True))
    source = sources.get(call.mesh.chip)
    _took("collective_permute", 2 if source not in (None, call.mesh.chip) else 1, call)
    kept = images[1] if len(images) > 1 else np.zeros_like(images[0])
    return kept if source is None else everyone[source]


def _place(number: int, call: Call) -> np.ndarray:
    return np.array(number, host_dtype(call.outputs[0].element_type))


@kernel("partition_id", CollectiveParams, unit="move", arity=0)
def partition_id(images: Images, call: Call) -> np.ndarray:
    """Which partition of its replica this chip is; `group_size` is how many there are."""
    return _place(call.mesh.chip % params_of(call, CollectiveParams).group_size, call)


@kernel("replica_id", CollectiveParams, unit="move", arity=0)
def replica_id(images: Images, call: Call) -> np.ndarray:
    """Which replica this chip belongs to."""
    return _place(call.mesh.chip // params_of(call, CollectiveParams).group_size, call)
