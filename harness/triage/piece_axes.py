"""The axes of a module of several ops: which dimensions of its values change together, and the module with one changed.

Each op's own axes (harness/prepare/axes.py) say which dimensions of its operands, and of results of the same extent,
change together; those of one value in several ops do too. A new size goes through the ops in their order: each becomes
the variant that StableHLO takes with its operands' new shapes, and its results say how the ops behind it change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from opscope.harness.prepare import axes
from opscope.harness.prepare.mlir import piece_module
from opscope.harness.prepare.mlir.single_op import CannotBuildError
from opscope.harness.prepare.mlir.variant import Form, InvalidVariantError, read
from opscope.harness.prepare.program import Node, SingleOp
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.subgraph import Piece

Dim = tuple[int, int]
"""A value's number, and one of its dimensions."""
MOST_ROUNDS = 4
"""How often a new size goes through the ops until all dimensions agree."""


@dataclass(frozen=True)
class _Op:
    """One op of the module with its axes; `same[i]` are the dimensions that have the extent of axis i."""

    node: Node
    module: bytes
    form: Form
    axes: tuple[axes.Axis, ...]
    same: tuple[tuple[Dim, ...], ...]


class PieceAxes:
    """The axes of one module. Raises InvalidVariantError for one with other than static tensors, or with bodies."""

    def __init__(self, module: bytes) -> None:
        self.split = split_module(module)
        self.program = self.split.program
        if any(node.bodies or node.kind == "unsplittable" for node in self.program.nodes):
            raise InvalidVariantError("its ops have programs inside")
        self._constants = {v for node in self.program.nodes if node.kind == "constant" for v in node.results}
        self._alike: dict[Dim, Dim] = {}
        self._ops = [self._read(node) for node in self.program.nodes if node.kind == "op"]
        for op in self._ops:
            for dims in op.same:
                for other in dims[1:]:
                    self._alike[self._root(other)] = self._root(dims[0])

    @cached_property
    def shapes(self) -> dict[int, tuple[int, ...]]:
        """Value -> its shape."""
        return {number: tuple(desc.shape) for number, desc in enumerate(self.split.values)}

    def sizes(self) -> list[tuple[Dim, int]]:
        """One dimension of the arguments for each axis that they have, and its size; the largest first."""
        first: dict[Dim, tuple[Dim, int]] = {}
        changeable = {self._root(dim) for op in self._ops for dims in op.same for dim in dims}
        for value in self.program.arguments:
            for place, size in enumerate(self.shapes[value]):
                if (root := self._root((value, place))) in changeable and size > 1:
                    first.setdefault(root, ((value, place), size))
        return sorted(first.values(), key=lambda each: -each[1])

    def with_size(self, dim: Dim, size: int) -> tuple[bytes, list[tuple[int, ...]]] | None:
        """The module where a dimension, and what changes with it, has another size, and its arguments' shapes; None if
        there is no such module."""
        sizes = {self._root(dim): size}
        for _ in range(MOST_ROUNDS):
            known = dict(sizes)
            if (ops := self._resized(sizes)) is None:
                return None
            if sizes == known:
                return self._built(ops, sizes)
        return None

    def _root(self, dim: Dim) -> Dim:
        while (above := self._alike.get(dim, dim)) != dim:
            dim = above
        return dim

    def _read(self, node: Node) -> _Op:
        module = self.split.ops[node.op_id].bytecode
        form = read(module)
        found = tuple(axes.find(module, form))
        return _Op(node, module, form, found, tuple(self._same(node, module, form, axis) for axis in found))

    def _same(self, node: Node, module: bytes, form: Form, axis: axes.Axis) -> tuple[Dim, ...]:
        """The dimensions of an op's values that have the extent of its axis, whatever that is."""
        dims = [(node.operands[n], d) for (kind, n, d), factor in axis.places if kind == "o" and factor == 1]
        dims += [(node.results[n], d) for (kind, n, d), factor in axis.places if kind == "r" and factor == 1]
        for trial in (axis.size + 1, axis.size - 1, 2 * axis.size, axis.size // 2):
            if trial > 0 and (other := axes.with_size(module, form, axis, trial)) is not None:
                pairs = (
                    (n, d, old, new)
                    for n, (before, after) in enumerate(zip(form.results, other[1].results, strict=True))
                    for d, (old, new) in enumerate(zip(before, after, strict=False))
                )
                dims += [(node.results[n], d) for n, d, old, new in pairs if (old, new) == (axis.size, trial)]
                break
        return tuple(dim for dim in dict.fromkeys(dims) if dim[0] not in self._constants)

    def _shape(self, value: int, sizes: dict[Dim, int]) -> tuple[int, ...]:
        return tuple(sizes.get(self._root((value, d)), old) for d, old in enumerate(self.shapes[value]))

    def _resized(self, sizes: dict[Dim, int]) -> list[tuple[bytes, Form]] | None:
        """The ops where dimensions have these sizes, to which those are added that their results have then."""
        ops = []
        for op in self._ops:
            module, form = op.module, op.form
            for axis, dims in zip(op.axes, op.same, strict=True):
                size = next((sizes[root] for dim in dims if (root := self._root(dim)) in sizes), axis.size)
                if size != axis.size:
                    if (other := axes.with_size(module, form, axis, size)) is None:
                        return None
                    module, form = other
            for value, shape in zip(op.node.operands, form.operands, strict=True):
                if value not in self._constants and self._shape(value, sizes) != shape:
                    return None
            for value, shape in zip(op.node.results, form.results, strict=True):
                for d, (old, new) in enumerate(zip(self.shapes[value], shape, strict=True)):
                    if sizes.setdefault(self._root((value, d)), new) != new:
                        return None
                    if new == old and sizes[self._root((value, d))] == old:
                        del sizes[self._root((value, d))]
            ops.append((module, form))
        return ops

    def _built(
        self, ops: list[tuple[bytes, Form]], sizes: dict[Dim, int]
    ) -> tuple[bytes, list[tuple[int, ...]]] | None:
        forms = {op.node.path: resized for op, resized in zip(self._ops, ops, strict=True)}
        constants = {
            value: shape
            for op, (_, form) in zip(self._ops, ops, strict=True)
            for value, shape in zip(op.node.operands, form.operands, strict=True)
            if value in self._constants
        }
        nodes, singles = [], {}
        for node in self.program.nodes:
            if node.value is not None:
                shape = constants.get(node.results[0], node.value.shape)
                if shape != node.value.shape and any(node.value.strides):
                    return None  # its numbers lie at their places
                first = node.value.reshape(-1)[:1].reshape(()) if node.value.size else node.value
                value = node.value if shape == node.value.shape else np.broadcast_to(first, shape)
                nodes.append(replace(node, value=value))
            else:
                old = self.split.ops[node.op_id]
                singles[node.path] = SingleOp(node.path, old.op_name, forms[node.path][0], (), (), {}, ())
                nodes.append(replace(node, op_id=node.path))
        piece = Piece("", tuple(nodes), tuple(nodes), self.program.arguments, self.program.results)
        try:
            module = piece_module.build(piece, replace(self.split, ops=singles))
        except CannotBuildError:
            return None
        return module, [self._shape(value, sizes) for value in self.program.arguments]
