"""Builds the module of a piece of a program: the ops of several single-op modules, joined by their values' numbers.

Each op is cloned from its own module, with its source location; its operands are found by the numbers that the program
has for them, the values that its regions read by its module's arguments. Functions that an op refers to come along
under names of their own, since two ops of a piece may bring different ones of equal name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from opscope.base.digest import words_digest
from opscope.harness.prepare.mlir.door import Module, context, load, to_bytecode
from opscope.harness.prepare.mlir.single_op import TOKEN, constant, inner_ops, verified, with_main
from opscope.harness.prepare.mlir.tokens import array_token
from opscope.harness.prepare.program import Node, SplitModule
from opscope.harness.prepare.subgraph import Piece

VERSION = "opscope-piece-1"
"""Version of the content id, so that a piece of one op is never taken for that op."""


def content_id(piece: Piece, split: SplitModule, parameters: frozenset[int]) -> str:
    """The id of a piece: equal where equal ops read one another in the same way, with the same constants, and the same
    results leave; 16 hex digits. `parameters` are the values from outside that stay from run to run."""
    names = {value: f"a{number}{'p' * (value in parameters)}" for number, value in enumerate(piece.arguments)}
    lines = [VERSION]
    for place, node in enumerate(piece.nodes):
        if node.value is not None:
            lines.append(f"{node.value.shape}{split.values[node.results[0]].data_type}{array_token(node.value)}")
        else:
            lines.append(
                f"{node.op_id}({','.join(names.get(value, TOKEN) for value in (*node.operands, *node.inputs))})"
            )
        names |= {value: f"v{place}.{number}" for number, value in enumerate(node.results)}
    return words_digest("\n".join([*lines, *(names[value] for value in piece.results)]), digits=16)


def build(piece: Piece, split: SplitModule) -> bytes:
    """The bytecode of the module whose `@main` computes the results of a piece from its arguments, tokens left out.

    Raises CannotBuildError where StableHLO refuses it.
    """
    used = {node.op_id for node in piece.nodes if node.value is None}
    sources = {op_id: _Source.of(split.ops[op_id].bytecode) for op_id in used}
    types: dict[int, Any] = {}
    for node in piece.nodes:
        if (source := sources.get(node.op_id)) is not None:
            types |= zip(node.operands, (value.type for value in source.op.operands), strict=True)
            types |= zip(node.inputs, (argument.type for argument in source.block.arguments), strict=True)
            types |= zip(node.results, (result.type for result in source.op.results), strict=True)
    taken = [value for value in piece.arguments if str(types[value]) != TOKEN]
    with context():
        module, block = with_main([types[v] for v in taken], [types[v] for v in piece.results], ir.Location.unknown())
        new: dict[int, ir.Value] = dict(zip(taken, block.arguments, strict=True))
        joined = _Joined(module, ir.InsertionPoint(block), types, new)
        with ir.Location.unknown():
            for node in piece.nodes:
                if node.value is not None:
                    joined.constant(node.results[0], node.value)
                else:
                    joined.op(node, sources[node.op_id])
            ir.Operation.create("func.return", operands=[new[v] for v in piece.results], ip=joined.point)
        return to_bytecode(verified(module))


@dataclass(frozen=True)
class _Source:
    """The module of one op."""

    module: Module
    block: Any
    op: ir.Operation

    @classmethod
    def of(cls, bytecode: bytes) -> _Source:
        module = load(bytecode)
        main = next(view.operation for view in module.body.operations if _name(view.operation) == "main")
        [block] = main.regions[0].blocks
        *_, op, _ = block.operations  # constants and tokens, the op, its return
        return cls(module, block, op.operation)


def _name(symbol: ir.Operation) -> str:
    """The name of a function or a mesh."""
    attribute: Any = symbol.attributes["sym_name"]
    return str(attribute.value)


@dataclass
class _Joined:
    """The module of a piece while it is filled."""

    module: Module
    point: ir.InsertionPoint
    types: dict[int, Any]
    new: dict[int, ir.Value]
    """Number of a value of the program -> the value in this module."""
    symbols: set[str] = field(default_factory=set)

    def constant(self, number: int, value: np.ndarray) -> None:
        """Adds a constant."""
        made = constant(value, self.types[number])
        self.point.insert(made)
        self.new[number] = made.results[0]

    def op(self, node: Node, source: _Source) -> None:
        """Adds an op, with the functions that it refers to."""
        for number in node.operands:
            if number not in self.new:  # a token
                made = ir.Operation.create("stablehlo.create_token", results=[self.types[number]], ip=self.point)
                self.new[number] = made.results[0]
        self._bring_symbols(source.module, node.op_id)
        outer = dict(zip(source.block.arguments, (self.new[number] for number in node.inputs), strict=True))
        for view in source.block.operations:  # what a region reads of a constant of its op's module
            if view.operation.name == "stablehlo.constant" and len(source.op.regions):
                outer[view.operation.results[0]] = view.operation.clone(self.point).results[0]
        clone = source.op.clone(self.point)
        clone.location = source.op.location
        for place, number in enumerate(node.operands):
            clone.operands[place] = self.new[number]
        for old, fresh in zip(inner_ops(source.op), inner_ops(clone), strict=True):
            for place, value in enumerate(old.operands):
                if value in outer:
                    fresh.operands[place] = outer[value]
        self.new |= zip(node.results, clone.results, strict=True)

    def _bring_symbols(self, source: Module, op_id: str) -> None:
        """Copies the functions (and meshes) of an op's module, once for each op, under names with its id."""
        point = ir.InsertionPoint(self.module.body)
        for view in source.body.operations:
            symbol = view.operation
            name = _name(symbol)
            if name == "main":
                continue
            own = f"{name}_{op_id}"
            ir.SymbolTable.replace_all_symbol_uses(name, own, source.operation)
            symbol.attributes["sym_name"] = ir.StringAttr.get(own)
            if own not in self.symbols:
                self.symbols.add(own)
                symbol.clone(point)
