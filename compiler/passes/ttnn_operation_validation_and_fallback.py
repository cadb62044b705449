"""Pass `ttnn-operation-validation-and-fallback`: holds each ttnn op to a board, and falls back where the board allows.

For modules that were not compiled for this board: written by hand, or for another one. A result that does not fit into
L1 where it is to lie, or is sharded over cores that the board lacks, is interleaved, or else moves to DRAM; a float
format that the board or its Dst lacks becomes one of 16 bits. Each such op says so in `ttnn.fallback`. What no fallback
mends is refused with the reason: circular buffers larger than L1, and integers that the board cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir.functions import functions
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.ttir_to_ttnn import NOT_COMPUTING, board
from opscope.compiler.passes.ttnn_optimizer import circular_buffers, has_kernel
from opscope.compiler.target.allocation import Buffer, l1_of, shares
from opscope.compiler.target.formats import FORMATS, NumberFormat, number_format
from opscope.compiler.target.system_desc import SystemDesc
from opscope.compiler.translations.ttnn_to_flatbuffer import describe

STAGE = "ttnn-to-flatbuffer"
NOTE = "ttnn.fallback"
"""Attribute of an op whose result is not as the module said: what it is instead, and why."""
NARROW = ("Float16_b", "Float16")
"""Formats that take the place of a float format that a board lacks, the best first."""


@dataclass(frozen=True)
class TtnnOperationValidationAndFallback(ModulePass):
    """Checks every function's kernels in the order in which they run."""

    name = "ttnn-operation-validation-and-fallback"
    board: str = "n150"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes layouts in place. Raises StageFailure (never) for an op that the board cannot take at all."""
        system = board(self.board)
        for inner in op.walk():
            if has_kernel(inner):
                _check_buffers(inner, system)
        for func in functions(op):
            wide = _refused_formats(func, system)
            for value in list(_values(func)):
                _in_a_format(value, wide, system)
            for inner in func.body.block.ops:
                _without_wide_dst(inner, system)
            _Memory(func, system).run()
            func.update_function_type()


def _values(func: FuncOp) -> Iterator[SSAValue]:
    yield from func.body.block.args
    for op in func.body.block.ops:
        yield from op.results


def _check_buffers(op: Operation, system: SystemDesc) -> None:
    """Raises StageFailure if two tiles of each tensor of a kernel are more than a core has."""
    needed = circular_buffers(op, system.ttnn)
    if needed > system.ttnn.l1_usable:
        message = (
            f"expected circular buffers of at most {system.ttnn.l1_usable:,} bytes in L1 of {system.board}, "
            f"got {needed:,}: no layout makes them smaller"
        )
        raise StageFailure(STAGE, op.name, message, kind="never")


def _refused_formats(func: FuncOp, system: SystemDesc) -> dict[str, str]:
    """Returns the formats of a function's tiles that the board lacks, or that a kernel cannot compute in its Dst."""
    refused: dict[str, str] = {}
    for op in func.body.block.ops:
        for value in (*op.operands, *op.results):
            encoding = layout.layout_of(value)
            if encoding is None or encoding.layout != "tile":
                continue
            own_format = number_format(encoding.data_type)
            wide = "Float32" if own_format.is_float else "Int32"
            computes = has_kernel(op) and isinstance(op, RowOp) and op.ROW.group not in NOT_COMPUTING
            if own_format.name not in system.formats:
                refused[own_format.name] = f"{system.board} has no {own_format.name}"
            elif computes and own_format.bits > 16 and wide not in system.dst_formats:
                refused.setdefault(own_format.name, f"Dst of {system.board} holds no {own_format.name}")
    return refused


def _in_a_format(value: SSAValue, refused: dict[str, str], system: SystemDesc) -> None:
    """Gives a tensor in tiles a format that the board takes. Raises StageFailure if it has none for its numbers."""
    encoding, kind = layout.layout_of(value), value.type
    if encoding is None or encoding.layout != "tile" or not isinstance(kind, TensorType):
        return
    own_format = number_format(encoding.data_type)
    if own_format.name not in refused:
        return
    user = value.owner.name if isinstance(value.owner, Operation) else "module"
    narrow = next((FORMATS[name] for name in NARROW if name in system.formats), None) if own_format.is_float else None
    if narrow is None:
        raise StageFailure(
            STAGE, user, f"expected a format that fits, got {own_format.name}: {refused[own_format.name]}", kind="never"
        )
    new = _with_format(shape_of(value), encoding, narrow)
    moved = Rewriter.replace_value_with_new_type(value, TensorType(kind.element_type, shape_of(value), new))
    _note(moved, f"{narrow.name}: {refused[own_format.name]}")


def _without_wide_dst(op: Operation, system: SystemDesc) -> None:
    """Lets a kernel accumulate in 16 bits where Dst has no more."""
    config = op.properties.get("compute_config")
    if isinstance(config, layout.ComputeConfigAttr) and not system.has_fp32_dst:
        op.properties["compute_config"] = layout.ComputeConfigAttr(
            config.math_fidelity, StringAttr("false"), config.math_approx_mode, config.packer_l1_acc
        )


def _with_format(shape: tuple[int, ...], old: layout.TTNNLayoutAttr, new: NumberFormat) -> layout.TTNNLayoutAttr:
    if old.spread == "interleaved":
        return layout.tile_layout(shape, new.ttcore, old.buffer_type)
    return layout.sharded_layout(shape, new.ttcore, old.spread, old.grid.pair)


def _note(value: SSAValue, words: str) -> None:
    if isinstance(value.owner, Operation):
        note = value.owner.attributes.get(NOTE)
        before = f"{note.data}; " if isinstance(note, StringAttr) else ""
        value.owner.attributes[NOTE] = StringAttr(before + words)


class _Memory:
    """The L1 of one function's run, op by op."""

    def __init__(self, func: FuncOp, system: SystemDesc) -> None:
        self.ops, self.system, self.profile = list(func.body.block.ops), system, system.ttnn
        room = self.profile.l1_usable - max(
            (circular_buffers(o, self.profile) for o in self.ops if has_kernel(o)), default=0
        )
        self.banks = l1_of(self.profile, max(room, 0))
        self.buffers: dict[SSAValue, Buffer] = {}
        self.last = {value: op for op in self.ops for value in (*op.results, *op.operands)}

    def run(self) -> None:
        """Places each result that is to lie in L1, and frees a tensor after its last reader."""
        for op in self.ops:
            for value in list(op.results):
                encoding = layout.layout_of(value)
                if encoding is not None and encoding.buffer_type == "l1":
                    self.place(op, value, encoding)
            for value in {*op.operands, *op.results}:
                if value in self.buffers and self.last[value] is op:
                    self.banks.free(self.buffers.pop(value))

    def place(self, op: Operation, value: SSAValue, wanted: layout.TTNNLayoutAttr) -> None:
        """Leaves a result as it is if it fits, else interleaves it over all cores, else moves it to DRAM."""
        why = self.why_not(value, wanted)
        if not why:
            return
        shape = shape_of(value)
        interleaved = layout.tile_layout(shape, wanted.data_type, "l1")
        if wanted.spread != "interleaved":
            over = self.why_not(value, interleaved)
            if not over:
                self.change(op, value, interleaved, f"l1 interleaved: {why}")
                return
            why = f"{why}; interleaved {over}"
        self.change(op, value, layout.tile_layout(shape, wanted.data_type, "dram"), f"dram: {why}")

    def why_not(self, value: SSAValue, encoding: layout.TTNNLayoutAttr) -> str:
        """Allocates a buffer for the value and returns nothing, or returns why the board has no place for it."""
        down, across = encoding.grid.pair if encoding.spread != "interleaved" else (1, 1)
        rows, columns = self.profile.grid
        whole = down <= rows and across <= columns
        if not whole and (min(down, across) > 1 or down * across > self.profile.cores):
            return f"{down}x{across} cores, {self.system.board} has {rows}x{columns}"
        in_l1 = replace(describe(value), buffer_type="l1", memory_layout=encoding.spread, grid=(down, across))
        sizes = shares(in_l1, self.profile)
        buffer = self.banks.fit(sizes)
        if buffer is None:
            return f"{int(sizes.max(initial=0)):,} bytes in a core, {self.banks.largest_gap(sizes):,} are free"
        self.buffers[value] = buffer
        return ""

    def change(self, op: Operation, value: SSAValue, new: layout.TTNNLayoutAttr, words: str) -> None:
        """Gives a result another layout."""
        kind = value.type
        assert isinstance(kind, TensorType)
        moved = Rewriter.replace_value_with_new_type(value, TensorType(kind.element_type, shape_of(value), new))
        self.last[moved] = self.last.pop(value)
        if value in self.buffers:
            self.buffers[moved] = self.buffers.pop(value)
        if isinstance(op, RowOp) and "memory_config" in op.properties:
            if new.buffer_type == "dram":
                del op.properties["memory_config"]
            else:
                op.properties["memory_config"] = layout.MemoryConfigAttr(
                    layout.BufferTypeAttr.of("l1"), layout.TensorMemoryLayoutAttr.of("interleaved")
                )
        _note(moved, words)
