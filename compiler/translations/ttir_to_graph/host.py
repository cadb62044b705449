"""The host's part of a program: the ops that TT-Buda leaves to the CPU, which fill the graph's queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from opscope.compiler.ir.functions import FALLBACK
from opscope.compiler.translations.ttir_to_graph.contents import Content


@dataclass(frozen=True)
class HostPart:
    """A TTIR function of the program's arguments, and the queues and results of the program that its results are."""

    module: ModuleOp
    """A function whose results are the values of `contents`, then those of `outputs`, in order."""
    contents: tuple[Content, ...]
    outputs: tuple[int, ...] = ()
    """The numbers of the program's results that no device computes: integers, or what no input changes."""

    def queues(self, results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Returns each source's contents, (z, rows, columns) of float32, from the results of the function."""
        return {c.name: c.layout.laid_out(r) for c, r in zip(self.contents, results, strict=False)}

    def results(self, results: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """Returns the program's results that the host has, by their number, from the results of the function."""
        return dict(zip(self.outputs, results[len(self.contents) :], strict=True))


def host_part(entry: FuncOp, contents: Mapping[str, Content], outputs: Mapping[int, SSAValue]) -> HostPart:
    """Returns the part of a function that fills its graph's sources, and its results that stay on the host."""
    wanted = tuple(contents.values())
    values_of_results = [*(content.value for content in wanted), *outputs.values()]
    block = Block(arg_types=[arg.type for arg in entry.body.block.args])
    values: dict[SSAValue, SSAValue] = dict(zip(entry.body.block.args, block.args, strict=True))
    needed = _needed(values_of_results)
    for op in entry.body.block.ops:
        if op in needed:
            block.add_op(op.clone(value_mapper=values))
    block.add_op(ReturnOp(*(values[value] for value in values_of_results)))
    types = [arg.type for arg in block.args], [value.type for value in values_of_results]
    module, whole = ModuleOp([FuncOp("main", types, Region(block))]), entry.parent_op()
    if whole is not None and FALLBACK in whole.attributes:
        module.attributes[FALLBACK] = whole.attributes[FALLBACK]
    return HostPart(module, wanted, tuple(outputs))


def _needed(values: Sequence[SSAValue]) -> set[Operation]:
    needed: set[Operation] = set()
    left = list(values)
    while left:
        owner = left.pop().owner
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            left += owner.operands
    return needed
