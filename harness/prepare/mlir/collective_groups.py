"""Reads which devices an op of several joins, and how, from its single-op module."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from opscope.harness.prepare.mesh.collectives import Collective
from opscope.harness.prepare.mlir.door import Module, load, parse, to_bytecode
from opscope.harness.prepare.mlir.traversal import main_of, ops_in
from opscope.harness.prepare.mlir.values import tensor_desc
from opscope.harness.record.records import TensorDesc

REPLICAS, PARTITIONS = "mhlo.num_replicas", "mhlo.num_partitions"
_GROUPS = ("replica_groups", "source_target_pairs")
_IDS = ("stablehlo.partition_id", "stablehlo.replica_id")
_DIMS = {
    "all_gather": ("all_gather_dim", ""),
    "reduce_scatter": ("scatter_dimension", ""),
    "all_to_all": ("split_dimension", "concat_dimension"),
}
"""Op -> its attributes that name dims."""
_ACROSS_PARTITIONS = frozenset({"all_to_all", "collective_permute", "collective_broadcast"})
"""Ops that with a channel join partitions of one replica alone; the others then join all partitions of replicas."""


def collective(module: Module | bytes) -> Collective:
    """The collective that is the only op of a module. Raises ValueError for what has no formula here."""
    loaded = load(module)
    [block] = main_of(loaded).regions[0].blocks
    op = next(view.operation for view in block.operations if _joins(view.operation))
    return _read(op, *_mesh(loaded))


def _mesh(module: Module) -> tuple[int, int]:
    """How many replicas and partitions a module is for."""
    attributes: Any = module.operation.attributes
    replicas, partitions = (attributes[key].value if key in attributes else 1 for key in (REPLICAS, PARTITIONS))
    return replicas, partitions


def _read(op: Any, replicas: int, partitions: int) -> Collective:
    name = op.name.removeprefix("stablehlo.")
    if len(op.operands) > 1:
        raise ValueError(f"{op.name} of {len(op.operands)} tensors at once: there is no formula for it here")
    dim, other = (op.attributes[key].value if key in op.attributes else 0 for key in _DIMS.get(name, ("", "")))
    groups = tuple(tuple(row) for row in _groups(op, name, replicas, partitions)) if op.operands else ()
    if outside := [device for group in groups for device in group if device >= replicas * partitions]:
        raise ValueError(f"groups that name device {outside[0]} of {replicas * partitions}")
    return Collective(name, groups, replicas * partitions, partitions, dim, other, _body(op))


def among_replicas(module: Module | bytes, devices: int) -> tuple[Module, list[TensorDesc], list[TensorDesc]]:
    """The module of `devices` devices as one of as many replicas, with the types of its arguments and results.

    Raises ValueError for one of another number of devices.
    """
    copy = parse(to_bytecode(load(module)))
    mesh = _mesh(copy)
    if math.prod(mesh) != devices:
        raise ValueError(f"expected a module of {devices} devices, got {mesh} replicas and partitions")
    joint = list(filter(_joins, ops_in(copy)))
    with copy.context, ir.Location.unknown():
        for op in joint:
            _of_replicas(op, *mesh)
        for key, count in ((REPLICAS, devices), (PARTITIONS, 1)):
            copy.operation.attributes[key] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count)
    [block] = main_of(copy).regions[0].blocks
    gives = block.operations[len(block.operations) - 1].operands
    return copy, [tensor_desc(argument.type) for argument in block.arguments], [tensor_desc(v.type) for v in gives]


def groups_in(module: Module) -> list[list[int]]:
    """The groups of all ops of a module of replicas that join devices; pairs of a permutation are none."""
    joint = [op for op in ops_in(module) if "replica_groups" in op.attributes]
    return [row for op in joint for row in _groups(op, op.name.removeprefix("stablehlo."), *_mesh(module))]


def device_count(module: Module | bytes) -> int:
    """How many devices run a module as it is, with collectives between them; 1 for a program of one device.

    It says so itself, or its groups name as many.
    """
    loaded = load(module)
    joint = list(filter(_joins, ops_in(loaded)))
    if not joint:
        return 1
    if (devices := math.prod(_mesh(loaded))) > 1:
        return devices
    named = [op.attributes[key] for op in joint for key in _GROUPS if key in op.attributes]
    return max([1, *(device + 1 for dense in named if hasattr(dense, "type") for device in dense)])


def for_devices(module: Module, devices: int) -> Module:
    """A module with collectives that says how many devices it is for: as replicas, or as partitions where its
    collectives have channels. Raises ValueError for one that says another number."""
    copy = parse(to_bytecode(module))
    count = device_count(copy)
    if math.prod(_mesh(copy)) == 1 and count <= devices:
        channels = list(map(_channel, ops_in(copy)))
        with copy.context:
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), devices)
            copy.operation.attributes[PARTITIONS if any(channels) else REPLICAS] = number
    elif count != devices:
        raise ValueError(f"expected {count} devices, got {devices}")
    return copy


def _of_replicas(op: Any, replicas: int, partitions: int) -> None:
    """Writes the groups of an op of replicas and partitions as those of replicas alone, without a channel."""
    if op.operands:
        rows = [list(row) for row in _groups(op, op.name.removeprefix("stablehlo."), replicas, partitions)]
        width = max(len(row) for row in rows)
        text = str([row + [-1] * (width - len(row)) for row in rows])
        key = "source_target_pairs" if "source_target_pairs" in op.attributes else "replica_groups"
        op.attributes[key] = ir.Attribute.parse(f"dense<{text}> : tensor<{len(rows)}x{width}xi64>")
    for key in {"channel_handle", "use_global_device_ids"} & set(op.attributes):
        del op.attributes[key]
    if op.name in _IDS:
        count = partitions if op.name == "stablehlo.partition_id" else replicas
        if count > 1 and replicas * partitions > count:
            raise ValueError(
                f"{op.name} of {replicas} replicas of {partitions} partitions: there is no form of replicas"
            )
        kind = op.results[0].type
        zero = {"value": ir.Attribute.parse(f"dense<0> : {kind}")}
        name, attributes = ("stablehlo.replica_id", {}) if count > 1 else ("stablehlo.constant", zero)
        place = ir.Operation.create(
            name, results=[kind], attributes=attributes, ip=ir.InsertionPoint(op), loc=op.location
        )
        op.results[0].replace_all_uses_with(place.results[0])
        op.erase()


def _joins(op: Any) -> bool:
    return any(key in op.attributes for key in _GROUPS) or op.name in _IDS


def _groups(op: Any, name: str, replicas: int, partitions: int) -> Iterator[list[int]]:
    """Groups of devices, `replica * partitions + partition`, or the pairs of a permutation (specification,
    `cross_replica`, `cross_partition`, `cross_replica_and_partition`, `flattened_ids`)."""
    pairs = name == "collective_permute"
    dense = op.attributes["source_target_pairs" if pairs else "replica_groups"]
    if not hasattr(dense, "type"):
        raise ValueError(f"{op.name} with groups along a mesh: expected lists of devices")
    count, width = dense.type.shape
    channel = _channel(op)
    rows = [[dense[row * width + at] for at in range(width)] for row in range(count)]
    if not pairs:
        rows = [[each for each in row if each >= 0] for row in rows]
    if not pairs and not any(rows):
        rows = [list(range(partitions if channel and name in _ACROSS_PARTITIONS else replicas))]
    if channel and "use_global_device_ids" in op.attributes:
        yield from rows
    elif channel and name in _ACROSS_PARTITIONS:
        yield from ([r * partitions + p for p in row] for r in range(replicas) for row in rows)
    elif channel:
        yield from ([r * partitions + p for r in row for p in range(partitions)] for row in rows)
    else:
        yield from ([r * partitions + p for r in row] for p in range(partitions) for row in rows)


def _channel(op: Any) -> int:
    text = str(op.attributes["channel_handle"]) if "channel_handle" in op.attributes else ""
    handle = re.search(r"handle = (-?\d+)", text)
    return max(int(handle[1]), 0) if handle else 0


def _body(op: Any) -> str:
    """The one op that joins two values; empty where nothing is joined. Raises ValueError for another body."""
    if not len(op.regions):
        return ""
    block = op.regions[0].blocks[0]
    inner = [view.operation for view in block.operations][:-1]
    if len(inner) != 1 or set(inner[0].operands) != set(block.arguments):
        raise ValueError(f"{op.name} with a body of several ops: there is no formula for it here")
    return inner[0].name
