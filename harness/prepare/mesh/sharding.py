"""Splits an exported model over a mesh: annotates its arguments, and has XLA's partitioner write each device's program.

A model that carries shardings of its own (`sdy.sharding`, `mhlo.sharding`, `shard_map`) keeps them. Another gets those
that its `@model(shardings=...)` names; the axes of the mesh `RxC` are then `data`, of R devices, and `model`, of C.
A program of one device with explicit collectives (`pmap`, a dump after partitioning) runs on all devices as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opscope.base.mesh import partition
from opscope.base.mesh.placement import Placement, placement
from opscope.base.mesh.shardings import sharding_in
from opscope.harness.prepare import mlir
from opscope.harness.prepare.export import Exported
from opscope.harness.prepare.mlir import collective_groups, file_models
from opscope.harness.prepare.mlir.annotate import annotated
from opscope.harness.prepare.mlir.values import tensor_desc
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import TensorDesc


@dataclass(frozen=True)
class Sharded:
    """A model as each device of a mesh runs it."""

    bytecode: bytes
    devices: int
    wholes: tuple[TensorDesc, ...]
    """The model's arguments before they were split."""
    arguments: tuple[Placement, ...]
    results: tuple[tuple[TensorDesc, Placement], ...]
    """The model's results before they were split, and where their parts lie."""


def sharded(exported: Exported, mesh: str, name: str, memory: int | None = None) -> Sharded:
    """The model split over a mesh, by a child that may hold `memory` bytes.

    Raises InputError if it says nothing of shardings, or XLA does not partition it.
    """
    devices = partition.devices_of(mesh)
    module = mlir.load(exported.bytecode, name)
    entry = file_models.entry(module, name)
    [block] = entry.regions[0].blocks
    wholes = tuple(tensor_desc(argument.type) for argument in block.arguments)
    whole_results = tuple(tensor_desc(value.type) for value in block.operations[len(block.operations) - 1].operands)
    if sharding_in(module.operation) is None:
        if collective_groups.device_count(module) > 1:
            return _as_it_is(module, devices, wholes, whole_results, f"--mesh {mesh}: {name}")
        if not exported.shardings:
            expected = "a model that says how it is split over devices"
            hint = "@model(shardings=...), or an export with shardings"
            raise InputError(f"--mesh {mesh}: {name}", expected, "one without shardings", hint)
        module = annotated(module, [spec.name for spec in exported.arguments], exported.shardings, mesh)
    try:
        split = partition.partitioned(mlir.to_bytecode(module), devices, memory=memory)
        return Sharded(
            split.bytecode,
            devices,
            wholes,
            _placements(split.arguments, wholes, devices),
            tuple(zip(whole_results, _placements(split.results, whole_results, devices), strict=True)),
        )
    except (partition.NotPartitioned, ValueError) as error:
        where, _, rest = str(error).partition("expected ")
        expected, _, got = rest.partition(", got")
        raise InputError(f"{name}: {where.rstrip(': ')}".rstrip(": "), expected, got.lstrip(": ")) from None


def _as_it_is(
    module: mlir.Module, devices: int, arguments: tuple[TensorDesc, ...], results: tuple[TensorDesc, ...], where: str
) -> Sharded:
    """Each device's own program, with collectives between them: all devices get the same arguments. Of its results,
    which no whole is known of, the first device's count."""
    try:
        bytecode = mlir.to_bytecode(collective_groups.for_devices(module, devices))
    except ValueError as error:
        expected, _, got = str(error).removeprefix("expected ").partition(", got ")
        raise InputError(where, f"{expected}, as the module says", got, f"--mesh {expected.split()[0]}") from None
    same = _placements((), arguments, devices)
    return Sharded(
        bytecode, devices, arguments, same, tuple(zip(results, _placements((), results, devices), strict=True))
    )


def _placements(texts: Sequence[str], wholes: Sequence[TensorDesc], devices: int) -> tuple[Placement, ...]:
    """The placement of each tensor. Raises ValueError if their number is another."""
    texts = list(texts) or ["{replicated}"] * len(wholes)
    if len(texts) != len(wholes):
        raise ValueError(f"expected {len(wholes)} shardings, got {len(texts)}")
    return tuple(placement(text, whole.shape, devices) for text, whole in zip(texts, wholes, strict=True))
