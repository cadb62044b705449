"""Splits a ttnn module into pieces: each op that computes, as a module of its own with device tensors as arguments.

Ops that move tensors between host and device, or free them, are not pieces: the device does that for each piece by
itself. Ops of programs that control flow calls are pieces too, besides the op that calls them. Ops that are computed
once are pieces in place of the op that loads their results.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.load_cached import LoadCachedOp
from opscope.compiler.dialects.locations import location
from opscope.compiler.ir.functions import SCALAR, functions, kind_of
from opscope.compiler.ir.text import parse, to_text
from opscope.compiler.ops.layout import MOVES
from opscope.compiler.pieces.meaning import module as meaning
from opscope.compiler.pieces.meaning import tolerance_op
from opscope.compiler.target.program import TensorDesc, programs_of
from opscope.compiler.target.system_desc import SystemDesc
from opscope.compiler.translations.ttnn_to_flatbuffer import to_binary

ID_VERSION = "1"
"""Raised when pieces that were equal before would get other ids."""
SHOWN = 200
"""Characters of an attribute that a piece keeps; constants are longer."""


@dataclass(frozen=True)
class Piece:
    """One op of a ttnn module."""

    program: int
    """Place of its function among the programs of the module's binary."""
    operation: int
    """Its place among the operations of that program."""
    piece_id: str
    """Equal for equal ops: kernel, parameters, numerics, types and layouts; 16 hex digits."""
    op_name: str
    text: str
    """Its module, in generic MLIR."""
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    location: str
    attributes: dict[str, str]
    held_to: str
    """The StableHLO op whose tolerance applies to it; empty if none is known."""
    combines: dict[str, str]
    """The op of a reduction's body, under the key `body`; empty for other ops."""
    meaning: str
    """StableHLO text that computes the same of the same operands; empty if there is none."""


@dataclass(frozen=True)
class Pieces:
    """A module taken apart."""

    pieces: tuple[Piece, ...]
    moves: int
    """Ops that are no piece: moves, deallocations, loads of what is computed once, returns."""


def take_apart(ttnn: ModuleOp, system_desc: SystemDesc) -> Pieces:
    """The pieces of a ttnn module, in its binary's order. Raises StageFailure as the translation to a binary does."""
    pieces: list[Piece] = []
    moves = 0
    callees = {func.sym_name.data: func for func in functions(ttnn)}
    for program, func in enumerate(functions(ttnn)):
        if kind_of(func) == SCALAR:
            continue
        number = -1
        for op in func.body.blocks[0].ops:
            number += isinstance(op, RowOp)
            if not isinstance(op, RowOp) or isinstance(op, LoadCachedOp) or op.ROW.kernel_name in MOVES:
                moves += 1
            else:
                pieces.append(_piece(op, program, number, callees, system_desc))
    return Pieces(tuple(pieces), moves)


def module_of(text: str) -> ModuleOp:
    """The module of a piece again. Raises CompilerInputError if it is none."""
    return parse(text, "piece")


def _piece(op: RowOp, program: int, number: int, callees: dict[str, FuncOp], system_desc: SystemDesc) -> Piece:
    operands = list(dict.fromkeys(v for v in op.operands if layout.layout_of(v) is not None))
    block = Block(arg_types=[v.type for v in operands])
    values: dict[SSAValue, SSAValue] = dict(zip(operands, block.args, strict=True))
    copy = op.clone(values)
    block.add_op(copy)
    block.add_op(ReturnOp(*copy.results))
    types = ([v.type for v in operands], [r.type for r in copy.results])
    module = ModuleOp([FuncOp("main", types, Region(block)), *_copies_of_callees(op, callees)])
    programs = to_binary(module, system_desc).programs
    entry = programs[0]
    stablehlo_op, combines = tolerance_op(op.ROW)
    inputs = tuple(entry.tensors[t] for t in entry.inputs)
    outputs = tuple(entry.tensors[t] for t in entry.outputs)
    call = entry.operations[0]
    meant = meaning(call, [entry.tensors[t] for t in call.inputs], outputs)
    return Piece(
        program,
        number,
        _digest(programs),
        op.name,
        to_text(module),
        inputs,
        outputs,
        location(op),
        {name: str(value)[:SHOWN] for name, value in sorted(op.properties.items())},
        stablehlo_op,
        combines,
        meant,
    )


def _copies_of_callees(op: RowOp, callees: dict[str, FuncOp]) -> list[FuncOp]:
    """Copies of the functions that an op names, and of those that these name."""
    waiting = [op]
    called: dict[str, FuncOp] = {}
    while waiting:
        caller = waiting.pop()
        for name in programs_of(caller.ROW.params(caller.read(), caller)):
            if name not in called:
                called[name] = callees[name].clone()
                waiting += [inner for inner in callees[name].body.blocks[0].ops if isinstance(inner, RowOp)]
    return list(called.values())


def _digest(programs: Any) -> str:
    digest = hashlib.sha256(ID_VERSION.encode())
    _feed(programs, digest.update, {program.name: str(n) for n, program in enumerate(programs)})
    return digest.hexdigest()[:16]


def _feed(value: Any, update: Any, names: dict[str, str]) -> None:
    """Hands a value of dataclasses to a digest, without locations; programs go by their place, not by their name."""
    if dataclasses.is_dataclass(value):
        update(type(value).__name__.encode() + b"(")
        for field in dataclasses.fields(value):
            if field.name != "location":
                _feed(getattr(value, field.name), update, names)
        update(b")")
    elif isinstance(value, tuple | list):
        update(b"[")
        for item in value:
            _feed(item, update, names)
        update(b"]")
    elif isinstance(value, bytes):
        update(b"b" + len(value).to_bytes(8, "little") + value)
    else:
        text = names.get(value, value) if isinstance(value, str) else value
        update(f"{text!r};".encode())
