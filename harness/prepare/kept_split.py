"""A split module in a file: what a walk begins with, where another process has split the model.

    digest of the whole file (`stored.write_bytes`)
    4 bytes       length of what follows next
    JSON          `of` (digest of the module that was split), what `write` makes of the rest
    bytes         the single-op modules one after another, then the elements of constants

Whoever finds no file (one of a very large module is not kept), a damaged one, or that of another module splits the
model itself.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import gc_pause, stored
from opscope.base.damage import Damaged
from opscope.harness.prepare.program import Node, Program, SingleOp, SplitModule
from opscope.harness.record.records import TensorDesc, Use
from opscope.models.seeding import dtype_of

if TYPE_CHECKING:
    import numpy as np

MOST_OPS = 200_000
"""Ops of a module whose split is kept: with so many, one copy of it takes a quarter of a GiB."""
MOST_BYTES = 64 << 20
"""Bytes of constants of such a module, splats apart."""
_ALIGNED = 16
"""The elements of each constant begin at a multiple of so many bytes."""
_LENGTH = struct.Struct("<I")


def write(path: Path, split: SplitModule, module: bytes) -> None:
    """Keeps the split of a module (its bytecode), unless it is too large. Where the disk is full, nothing is kept."""
    if split.module_ops > MOST_OPS:
        return
    writer = _Writer()
    program = writer.program(split.program)
    if writer.size > MOST_BYTES:
        return
    head = json.dumps(
        {
            "of": stored.digest(module),
            "model": next((use.model for op in split.ops.values() for use in op.uses), ""),
            "counts": [split.module_ops, split.structural, split.dead],
            "values": [writer.type(desc) for desc in split.values],
            "ops": [
                [
                    op.op_id,
                    op.op_name,
                    len(op.bytecode),
                    [writer.type(desc) for desc in op.inputs],
                    [writer.type(desc) for desc in op.outputs],
                    op.op_params,
                    op.unsplittable,
                ]
                for op in split.ops.values()
            ],
            "program": program,
            "arrays": writer.arrays,
            "types": list(writer.types),
        }
    ).encode()
    modules = b"".join(op.bytecode for op in split.ops.values())
    filling = bytes(-(_LENGTH.size + len(head) + len(modules)) % _ALIGNED)
    with contextlib.suppress(OSError):
        stored.write_bytes(path, b"".join((_LENGTH.pack(len(head)), head, modules, filling, *writer.elements)))


def read(path: Path, module: bytes) -> SplitModule | None:
    """The split of a module (its bytecode) that `write` has kept; None if there is none, or it is damaged."""
    try:
        content = stored.read_bytes(path)
    except (FileNotFoundError, Damaged):
        return None
    start = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    head = json.loads(content[_LENGTH.size : start])
    if head["of"] != stored.digest(module):
        return None
    with gc_pause.paused():  # all that is made here stays
        return _Reader(head, content, start).split()


class _Writer:
    """What the lists of a file are made of."""

    def __init__(self) -> None:
        self.types: dict[tuple[tuple[int, ...], str], int] = {}
        self.arrays: list[tuple[str, tuple[int, ...], bool]] = []
        """NumPy's type, shape, and whether it is a splat, of which one element is kept, of each constant's array."""
        self.elements: list[bytes] = []
        self.size = 0
        self._places: dict[int, int] = {}
        """The `id` of an array that is in `arrays` -> where: several constants may have one."""

    def type(self, desc: TensorDesc) -> int:
        """The place of a type among `types`."""
        return self.types.setdefault((desc.shape, desc.data_type), len(self.types))

    def program(self, program: Program) -> list[Any]:
        """A program as lists."""
        nodes = [
            (
                node.kind,
                node.name,
                node.path,
                node.operands,
                node.results,
                node.op_id,
                node.inputs,
                node.outputs,
                None if node.value is None else self._array(node.value),
                node.location,
                node.framework_op,
                [self.program(body) for body in node.bodies],
            )
            for node in program.nodes
        ]
        return [program.name, program.arguments, nodes, program.results, program.captures]

    def _array(self, array: np.ndarray) -> int:
        """The place of a constant's array among `arrays`."""
        place = self._places.get(id(array))
        if place is None:
            place = self._places[id(array)] = len(self.arrays)
            splat = array.size > 0 and not any(array.strides)
            elements = (array[(slice(0, 1),) * array.ndim] if splat else array).tobytes()
            self.arrays.append((array.dtype.name, array.shape, splat))
            self.elements += [elements, bytes(-len(elements) % _ALIGNED)]
            self.size += len(elements)
        return place


class _Reader:
    """Makes of a file what the splitter has made."""

    def __init__(self, head: dict[str, Any], content: bytes, start: int) -> None:
        """`start` is where the modules begin in the content."""
        self._head, self._content, self._start = head, content, start
        self._types = [TensorDesc(shape=tuple(shape), data_type=name) for shape, name in head["types"]]
        self._arrays: list[np.ndarray] = []
        self._uses: dict[str, list[Use]] = {row[0]: [] for row in head["ops"]}

    def split(self) -> SplitModule:
        """All of it."""
        modules, place = {}, self._start
        for op_id, _, length, *_ in self._head["ops"]:
            modules[op_id] = self._content[place : place + length]
            place += length
        self._arrays = list(self._read_arrays(place + -place % _ALIGNED))
        program = self._program(self._head["program"])
        ops = {
            op_id: SingleOp(
                op_id,
                name,
                modules[op_id],
                self._descs(inputs),
                self._descs(outputs),
                params,
                tuple(self._uses[op_id]),
                reason,
            )
            for op_id, name, _, inputs, outputs, params, reason in self._head["ops"]
        }
        return SplitModule(program, self._descs(self._head["values"]), ops, *self._head["counts"])

    def _descs(self, places: Sequence[int]) -> tuple[TensorDesc, ...]:
        return tuple([self._types[place] for place in places])

    def _read_arrays(self, place: int) -> Iterator[np.ndarray]:
        """The arrays of constants, read-only, the first at a place of the content."""
        import numpy as np

        for name, shape, splat in self._head["arrays"]:
            dtype = dtype_of(name)
            count = 1 if splat else math.prod(shape)
            elements = np.frombuffer(self._content, dtype, count, place)
            yield np.broadcast_to(elements.reshape(()), shape) if splat else elements.reshape(shape)
            place += elements.nbytes + -elements.nbytes % _ALIGNED

    def _program(self, row: Sequence[Any]) -> Program:
        """A program; its nodes are noted as the uses of their ops, which are counted in the same order."""
        name, arguments, rows, results, captures = row
        return Program(name, tuple(arguments), tuple(map(self._node, rows)), tuple(results), tuple(captures))

    def _node(self, row: Sequence[Any]) -> Node:
        kind, name, path, operands, results, op_id, inputs, outputs, array, location, framework_op, bodies = row
        if op_id:
            use = Use(model=self._head["model"], path=path, location=location, framework_op=framework_op)
            self._uses[op_id].append(use)
        return Node(
            kind,
            name,
            path,
            tuple(operands),
            tuple(results),
            op_id,
            tuple(inputs),
            tuple(outputs),
            None if array is None else self._arrays[array],
            location,
            framework_op,
            tuple(map(self._program, bodies)),
        )
