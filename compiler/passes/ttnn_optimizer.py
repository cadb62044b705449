"""Pass `ttnn-optimizer`: decides which tensors stay in L1, and how they are spread over the cores.

It walks the ops in the order in which the device allocates, by the device's own rules
(`compiler/target/allocation.py`). A result goes to L1 if it fits there, for as long as it is read, beside the other
tensors and the circular buffers of the kernels. It is sharded if its kernel leaves each core with its own part and that
uses about as many cores as distributing its tiles would; otherwise it is interleaved. Everything else lies in DRAM:
what does not fit, arguments, results of the program, and what control flow passes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.ir.functions import functions, kind_of
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.ttir_to_ttnn import board
from opscope.compiler.target.allocation import Buffer, l1_of, shares, tile_matrix
from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.system_desc import Profile
from opscope.compiler.translations.ttnn_to_flatbuffer import describe

LOCAL = frozenset({"eltwise", "norm"})
"""Families whose kernels compute each part of a result from the same parts of their operands."""
PRODUCTS = frozenset({"matmul", "linear", "conv2d"})
"""Kernels that spread their results over a grid of cores."""
IN_DRAM = frozenset({"control", "collective", "host", "layout", "linalg", "random"})
"""Families whose results stay in DRAM."""
SHARE = 0.75
"""A sharded tensor uses at least this share of the cores that an interleaved one would use."""
Spread = tuple[str, tuple[int, int]]
"""Memory layout and grid."""


@dataclass(frozen=True)
class TtnnOptimizer(ModulePass):
    """Puts a result into L1 if it fits for as long as it is read; block, height or width sharded if that uses about as
    many cores, else interleaved."""

    name = "ttnn-optimizer"
    board: str = "n150"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes layouts in place; kernels that write to L1 get a `memory_config`."""
        profile = board(self.board).ttnn
        buffers = [circular_buffers(inner, profile) for inner in op.walk() if has_kernel(inner)]
        room = profile.l1_usable - max(buffers, default=0)
        for func in functions(op):
            if not kind_of(func):
                _Chooser(func.body.blocks[0], profile, room).run()


def has_kernel(op: Operation) -> bool:
    """Whether a device's kernel computes an op."""
    return isinstance(op, RowOp) and op.ROW.group not in ("control", "host")


def circular_buffers(op: Operation, profile: Profile) -> int:
    """Returns the bytes of circular buffers: two tiles for each tensor of a kernel."""
    descs = [describe(v) for v in (*op.operands, *op.results) if layout.layout_of(v) is not None]
    on_device = [d for d in descs if d.buffer_type != "system_memory"]
    return sum(2 * (FORMATS[d.data_format].tile_bytes + profile.tile_header_bytes) for d in on_device)


class _Chooser:
    """Chooses places for the results of one function, op by op, and tracks its L1."""

    def __init__(self, block: Block, profile: Profile, room: int) -> None:
        self.block, self.profile = block, profile
        self.banks = l1_of(profile, max(room, 0))
        self.buffers: dict[SSAValue, Buffer] = {}
        self.last = {value: op for op in block.ops for value in (*op.results, *op.operands)}
        """Value -> the op that reads it last, or the op that makes it if it is never read."""

    def run(self) -> None:
        """Chooses a place for every result, and frees a tensor after its last reader."""
        for op in self.block.ops:
            if isinstance(op, RowOp) and op.ROW.group not in IN_DRAM:
                for value in op.results:
                    if self.may_move(value):
                        self.place(op, value)
            for value in {*op.operands, *op.results}:
                if value in self.buffers and self.last[value] is op:
                    self.banks.free(self.buffers.pop(value))

    def may_move(self, value: SSAValue) -> bool:
        """Whether a value is in DRAM and only kernels of this function read it."""
        encoding = layout.layout_of(value)
        if encoding is None or encoding.buffer_type != "dram" or encoding.layout != "tile" or not value.uses:
            return False
        readers = [use.operation for use in value.uses]
        return not any(isinstance(op, ReturnOp) or _group(op) in IN_DRAM for op in readers)

    def place(self, op: RowOp, value: SSAValue) -> None:
        """Puts a value in L1 in the first way that fits."""
        old = layout.layout_of(value)
        assert old is not None
        shape = shape_of(value)
        in_dram, kind = describe(value), value.type
        assert isinstance(kind, TensorType)
        for spread, grid in self.spread_choices(op, shape):
            in_l1 = replace(in_dram, buffer_type="l1", memory_layout=spread, grid=grid)
            buffer = self.banks.fit(shares(in_l1, self.profile))
            if buffer is None:
                continue
            if spread == "interleaved":
                new = layout.tile_layout(shape, old.data_type, "l1")
            else:
                new = layout.sharded_layout(shape, old.data_type, spread, grid)
            moved = Rewriter.replace_value_with_new_type(value, TensorType(kind.element_type, shape, new))
            self.last[moved] = self.last.pop(value)
            self.buffers[moved] = buffer
            op.properties["memory_config"] = layout.MemoryConfigAttr(
                layout.BufferTypeAttr.of("l1"), layout.TensorMemoryLayoutAttr.of(spread)
            )
            return

    def spread_choices(self, op: RowOp, shape: tuple[int, ...]) -> Iterator[Spread]:
        """Yields the ways in which a kernel's result may lie in L1, the best first."""
        rows, columns = tile_matrix(shape)
        wanted = SHARE * min(self.profile.cores, max(rows * columns, 1))
        for spread, grid in self.sharded(op, rows, columns):
            if grid[0] * grid[1] >= wanted:
                yield spread, grid
        yield "interleaved", (1, 1)

    def sharded(self, op: RowOp, rows: int, columns: int) -> Iterator[Spread]:
        """Yields the shardings that the op's kernel can write."""
        if op.ROW.group in LOCAL:
            for value in op.operands:
                encoding = layout.layout_of(value)
                if (
                    encoding is not None
                    and encoding.spread != "interleaved"
                    and tile_matrix(shape_of(value)) == (rows, columns)
                ):
                    yield encoding.spread, encoding.grid.pair
        whole_rows = op.ROW.group == "norm"
        if op.ROW.group in LOCAL or op.ROW.ttir in PRODUCTS:
            yield from spreads(rows, columns, self.profile, whole_rows)


def spreads(rows: int, columns: int, profile: Profile, whole_rows: bool = False) -> list[Spread]:
    """Returns the ways to shard a matrix of tiles, most cores first; with `whole_rows` no row is cut."""
    cores, (grid_rows, grid_columns) = profile.cores, profile.grid
    choices: list[Spread] = [("height_sharded", (_parts(rows, cores), 1))]
    if not whole_rows:
        choices.append(("block_sharded", (_parts(rows, grid_rows), _parts(columns, grid_columns))))
        choices.append(("width_sharded", (1, _parts(columns, cores))))
    return sorted(choices, key=lambda choice: -choice[1][0] * choice[1][1])


def _parts(tiles: int, cores: int) -> int:
    """Returns how many of at most `cores` cores hold shards of equal size; the last shard may be smaller."""
    each = -(-tiles // max(min(cores, tiles), 1))
    return max(-(-tiles // max(each, 1)), 1)


def _group(op: Operation) -> str:
    return op.ROW.group if isinstance(op, RowOp) else ""
