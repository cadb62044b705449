"""The walk of a program that the devices of a mesh run together: each value has one array per device.

An op of one device is evaluated once for each different set of operands; what several devices compute together by the
specification's formulas (`collectives.py`). Devices with the same array share one object, in memory and on disk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opscope.harness.cache.export_folder import VALUES
from opscope.harness.prepare import golden
from opscope.harness.prepare.mesh.collectives import COLLECTIVES
from opscope.harness.prepare.mesh.loops import interpreted
from opscope.harness.prepare.mesh.per_device import PerDevice, grouped
from opscope.harness.prepare.mesh.sharding import Sharded
from opscope.harness.prepare.mlir.collective_groups import collective
from opscope.harness.prepare.own_random_numbers import OWN_NUMBERS
from opscope.harness.prepare.program import Node, SingleOp
from opscope.harness.prepare.walk import Missing, Walker, WalkTask, journal_line
from opscope.harness.record.element_types import byte_size, load, save
from opscope.harness.record.records import OpRow, Shard, Source


class MeshWalker(Walker):
    """The state of one walk over a mesh."""

    def __init__(self, plan: WalkTask, mesh: Sharded) -> None:
        super().__init__(plan)
        self.mesh, self.devices = mesh, mesh.devices
        self.shards: dict[str, tuple[Shard, ...]] = {}
        self._sources: dict[tuple[int, int], Source] = {}
        """Value and first device -> where its array comes from."""
        self._at: list[tuple[Node, dict[int, Any]]] = []
        """The nodes under evaluation, each with the values that it can see; a loop's before those of its body."""
        self._joint = {node.op_id for node in self.split.program.walk() if _joins(node)}
        """Ops that several devices compute together: collectives, and loops and branches that hold one."""

    # --- values --------------------------------------------------------------------------------------------------

    def bytes_of(self, value: int) -> int:
        """Size of a value on all devices, as if all had different arrays."""
        return super().bytes_of(value) * self.devices

    def argument(self, value: int) -> Any:
        """The parts of an argument, cut from the whole."""
        index = self.arguments[value]
        whole_desc, place = self.mesh.wholes[index], self.mesh.arguments[index]
        if missing := self.above_cap(value, "argument"):
            return missing
        if index in self.plan.value_files:
            whole = load(self.plan.folder / self.plan.value_files[index], whole_desc.shape, whole_desc.data_type)
        else:
            whole = self.draw(whole_desc, self.plan.distributions[index], index)
        parts: dict[tuple[int, ...], Any] = {}
        for device, start in enumerate(place.starts):
            if start not in parts:
                parts[start] = golden.put(place.part(whole, device))
        return PerDevice(tuple(parts[start] for start in place.starts))

    def _spread(self, value: Any) -> Any:
        """A value of the walk; a constant as the same array on all devices."""
        return PerDevice((golden.put(value),) * self.devices) if isinstance(value, np.ndarray) else value

    def _value(self, value: int, env: dict[int, Any]) -> Any:
        """A value on all devices; an argument is made where it is first read."""
        env[value] = self._spread(env[value] if value in env else self.argument(value))
        return env[value]

    def _different(self, buffers: Sequence[PerDevice]) -> dict[int, list[int]]:
        """Devices with the same operands, each group under its first device."""
        return grouped([tuple(id(buffer.buffers[device]) for buffer in buffers) for device in range(self.devices)])

    def inputs(
        self, op: SingleOp, node: Node, env: dict[int, Any], store: bool
    ) -> tuple[list[Any] | Missing, tuple[Source, ...]]:
        """The input buffers of one use on each device, and where those of the first device come from."""
        buffers: list[PerDevice] = []
        sources: list[list[Source]] = [[] for _ in range(self.devices)]
        for index, value in enumerate(node.inputs):
            buffer = self._value(value, env)
            if isinstance(buffer, Missing):
                if reason := self.no_random(op.inputs[index]):
                    return Missing(reason), ()
                source, drawn = self.random(op, node, index)
                buffer, of_devices = PerDevice((drawn,) * self.devices), [source] * self.devices
            elif value in self.arguments:
                of_devices = [self._argument_source(self.arguments[value], device) for device in range(self.devices)]
            else:
                of_devices = [Source(kind="captured", path=path) for path in self._files(value, buffer)]
                if store:
                    self.store(value, buffer)
            buffers.append(buffer)
            for device, source in enumerate(of_devices):
                sources[device].append(source)
        if store:
            self._note_sources(op, buffers, sources)
        return list(buffers), tuple(sources[0])

    def _argument_source(self, index: int, device: int) -> Source:
        """A device's part of an argument: the whole's source, and where the part begins."""
        whole, place = self.mesh.wholes[index].shape, self.mesh.arguments[index]
        source = self.source(index)
        if place.shape == whole:
            return source
        return source.model_copy(update={"whole": whole, "start": place.starts[device]})

    def _note_sources(self, op: SingleOp, buffers: Sequence[PerDevice], sources: Sequence[Sequence[Source]]) -> None:
        """Remembers the devices with different operands; each device of a collective counts by itself."""
        alone = {device: [device] for device in range(self.devices)}
        groups = alone if op.op_id in self._joint else self._different(buffers)
        self.shards[op.op_id] = tuple(
            Shard(devices=tuple(group), sources=tuple(sources[first])) for first, group in groups.items()
        )

    def _files(self, value: int, buffer: PerDevice) -> list[str]:
        """The file of each device's array: `12.npy` of the first, `12.d3.npy` of what device 3 has first."""
        paths = [""] * self.devices
        for first, group in buffer.groups().items():
            for device in group:
                paths[device] = f"{VALUES}/{value}{f'.d{first}' if first else ''}.npy"
        return paths

    def store(self, value: int, buffer: Any) -> None:
        """Writes each different array of a value once."""
        if value in self.stored:
            return
        for first, path in {first: self._files(value, buffer)[first] for first in buffer.groups()}.items():
            save(self.plan.folder / path, golden.view(buffer.buffers[first]))
        self.stored.add(value)

    # --- ops -----------------------------------------------------------------------------------------------------

    def node(self, node: Node, env: dict[int, Any]) -> None:
        """Evaluates one node on all devices."""
        self._at.append((node, env))
        super().node(node, env)
        self._at.pop()

    def evaluate(self, op: SingleOp, buffers: list[Any] | Missing) -> list[Any]:
        """The results of one use on all devices, or Missing."""
        if isinstance(buffers, Missing):
            return super().evaluate(op, buffers)
        if op.op_name in COLLECTIVES:
            return self._together(op, buffers)
        if op.op_id in self._joint:
            node, env = self._at[-1]
            for value in node.operands:
                self._value(value, env)
            return interpreted(node, env, self._step, self.devices, len(op.outputs))
        of_device: list[list[Any]] = [[]] * self.devices
        for first, group in self._different(buffers).items():
            results = super().evaluate(op, [buffer.buffers[first] for buffer in buffers])
            if missing := next((result for result in results if isinstance(result, Missing)), None):
                return [missing] * len(op.outputs)
            for device in group:
                of_device[device] = results
        return [PerDevice(tuple(of_device[d][k] for d in range(self.devices))) for k in range(len(op.outputs))]

    def _step(self, node: Node, env: dict[int, Any]) -> None:
        """Evaluates a node of a body once more: nothing is stored."""
        if node.kind != "op":
            self.node(node, env)
            return
        op = self.split.ops[node.op_id]
        buffers: list[Any] = [self._value(value, env) for value in node.inputs]
        missing = next((buffer for buffer in buffers if isinstance(buffer, Missing)), None)
        self._at.append((node, env))
        env |= dict(zip(node.outputs, self.evaluate(op, missing or buffers), strict=True))
        self._at.pop()

    def _together(self, op: SingleOp, buffers: Sequence[PerDevice]) -> list[Any]:
        """The result of a collective on each device."""
        if reason := self.plan.fatal_ops.get(op.op_id) or self.too_large(op):
            return [Missing(reason)] * len(op.outputs)
        os.pwrite(self.journal, journal_line(op), 0)
        try:
            arrays = [golden.view(buffer) for buffer in buffers[0].buffers] if buffers else [None] * self.devices
            joint = collective(op.bytecode)
            if joint.devices != self.devices:
                raise ValueError(f"expected an op of {self.devices} devices, got one of {joint.devices}")
            results = joint.results(arrays)
        except ValueError as error:
            return [Missing(f"{op.op_name}: {error}")] * len(op.outputs)
        known: list[tuple[np.ndarray, Any]] = []
        shared = []
        for result in results:  # equal results of a group become one object
            buffer = next((b for array, b in known if array is result or _same(array, result)), None)
            if buffer is None:
                buffer = golden.put(result)
                known.append((result, buffer))
            shared.append(buffer)
        return [PerDevice(tuple(shared))]

    def too_large(self, op: SingleOp) -> str:
        """Why the results are too large to be computed; empty if they are not."""
        if reason := super().too_large(op):
            return reason
        size, limit = sum(byte_size(d.shape, d.data_type) for d in op.outputs), self.plan.limits.live_bytes
        if self.live_bytes + self.devices * size > limit:
            return f"its results on {self.devices} devices are above the cap of all values"
        return ""

    def remember(self, op: SingleOp, outputs: Sequence[int], results: Sequence[Any]) -> None:
        """Stores the goldens of all devices."""
        super().remember(op, outputs, results)
        if op.op_id not in self.goldens or op.op_id not in self.shards:
            return
        files = [self._files(value, result) for value, result in zip(outputs, results, strict=True)]
        self.shards[op.op_id] = tuple(
            shard.model_copy(update={"golden": tuple(paths[shard.devices[0]] for paths in files)})
            for shard in self.shards[op.op_id]
        )

    def measure_terms(self, op: SingleOp, buffers: list[Any] | Missing, part: str = "") -> None:
        """Measures the terms of a sum on each device with operands of its own."""
        if isinstance(buffers, Missing) or op.op_id in self._joint or op.op_id not in self.shards:
            return
        measured = []
        for shard in self.shards[op.op_id]:
            first = shard.devices[0]
            super().measure_terms(op, [buffer.buffers[first] for buffer in buffers], f".d{first}" if first else "")
            measured.append(shard.model_copy(update={"term_sizes": self.term_sizes.pop(op.op_id, ())}))
        self.shards[op.op_id] = tuple(measured)

    def row(self, op: SingleOp) -> OpRow:
        """The manifest's row of a unique op, with what each device has of its own."""
        row = super().row(op)
        shards = self.shards.get(op.op_id, ())
        if not shards:
            return row
        update = {"devices": self.devices if op.op_id in self._joint else 1, "shards": shards}
        return row.model_copy(update={**update, "term_sizes": shards[0].term_sizes})

    def final(self, value: int, env: Mapping[int, Any]) -> Any:
        """A result of the program: its arrays on all devices."""
        if value in self.drawn:
            return Missing(OWN_NUMBERS, self.drawn[value])
        buffer = env[value] if value in env else self.argument(value)
        if isinstance(buffer, np.ndarray):
            return [buffer] * self.devices
        return buffer if isinstance(buffer, Missing) else [golden.take(each) for each in buffer.buffers]


def _joins(node: Node) -> bool:
    """Whether an op is a collective, or its bodies hold one."""
    return node.name in COLLECTIVES or any(_joins(inner) for body in node.bodies for inner in body.nodes)


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two arrays have equal bits."""
    return first.shape == second.shape and first.tobytes() == second.tobytes()
