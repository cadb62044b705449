"""The host's part of a program: the ops that TT-Buda leaves to the CPU, which fill the graph's queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from opscope.compiler.target.formats import TILE
from opscope.compiler.translations.ttir_to_graph.contents import Content


@dataclass(frozen=True)
class HostPart:
    """A TTIR function of the program's arguments, and the queues that its results fill."""

    module: ModuleOp
    """A function whose results are the values of `contents`, in order."""
    contents: tuple[Content, ...]

    def queues(self, results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Returns each source's contents, (z, rows, columns) of float32, from the results of the function."""
        return {c.name: _laid_out(c, np.asarray(r)) for c, r in zip(self.contents, results, strict=True)}


def host_part(entry: FuncOp, contents: Mapping[str, Content]) -> HostPart:
    """Returns the part of a function that its graph's sources need."""
    wanted = tuple(contents.values())
    block = Block(arg_types=[arg.type for arg in entry.body.block.args])
    values: dict[SSAValue, SSAValue] = dict(zip(entry.body.block.args, block.args, strict=True))
    needed = _needed([content.value for content in wanted])
    for op in entry.body.block.ops:
        if op in needed:
            block.add_op(op.clone(value_mapper=values))
    block.add_op(ReturnOp(*(values[content.value] for content in wanted)))
    types = [arg.type for arg in block.args], [content.value.type for content in wanted]
    return HostPart(ModuleOp([FuncOp("main", types, Region(block))]), wanted)


def _needed(values: Sequence[SSAValue]) -> set[Operation]:
    needed: set[Operation] = set()
    left = list(values)
    while left:
        owner = left.pop().owner
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            left += owner.operands
    return needed


def _laid_out(content: Content, value: np.ndarray) -> np.ndarray:
    value = value.astype(np.float32)
    if content.inverted:
        value = np.float32(1) / value
    if content.channels:
        kh, kw, _, out = value.shape
        value = np.pad(value, [(0, 0), (0, 0), (0, -content.channels % TILE), (0, 0)])
        value = value.reshape(1, kh * kw * value.shape[2], out)
    return value.reshape(content.elements)
