"""Pass `ttnn-optimizer`: which tensors stay in L1, and how they are spread over the cores.

Ops are walked as the device allocates, by the device's own rules (`compiler/target/allocation.py`): a
result goes to L1 where it fits beside what is there for as long as it is read, and beside the circular buffers of the
kernels. It is sharded where its kernel leaves each core with its own part and that takes about as many cores as dealing
its tiles out; else interleaved. What does not fit lies in DRAM, as do arguments, results of the program, and what
control flow hands on.
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
from opscope.compiler.target.allocation import Bank, bank_bytes, tile_matrix
from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.system_desc import Profile
from opscope.compiler.translations.ttnn_to_flatbuffer import describe

LOCAL = frozenset({"eltwise", "norm"})
"""Families whose kernels make each part of a result from the same parts of their operands."""
PRODUCTS = frozenset({"matmul", "linear", "conv2d"})
"""Kernels that lay their results out on a grid of cores."""
IN_DRAM = frozenset({"control", "collective", "host", "layout", "linalg", "random"})
"""Families whose results stay in DRAM."""
SHARE = 0.75
"""A sharded tensor has at least this share of the cores that an interleaved one would have."""
Spread = tuple[str, tuple[int, int]]
"""Memory layout and grid."""


@dataclass(frozen=True)
class TtnnOptimizer(ModulePass):
    """Moves results of the entry's kernels to L1."""

    name = "ttnn-optimizer"
    board: str = "n150"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes layouts in place; kernels that write to L1 get a `memory_config`."""
        profile = board(self.board).ttnn
        buffers = [_circular_buffers(inner, profile) for inner in op.walk() if _has_kernel(inner)]
        room = profile.l1_usable - max(buffers, default=0)
        for func in functions(op):
            if not kind_of(func):
                _Chooser(func.body.blocks[0], profile, room).run()


def _has_kernel(op: Operation) -> bool:
    return isinstance(op, RowOp) and op.ROW.group not in ("control", "host")


def _circular_buffers(op: Operation, profile: Profile) -> int:
    """Two tiles for each tensor of a kernel."""
    descs = [describe(v) for v in (*op.operands, *op.results) if layout.layout_of(v) is not None]
    on_device = [d for d in descs if d.buffer_type != "system_memory"]
    return sum(2 * (FORMATS[d.data_format].tile_bytes + profile.tile_header_bytes) for d in on_device)


class _Chooser:
    """One function, op by op, and its L1."""

    def __init__(self, block: Block, profile: Profile, room: int) -> None:
        self.block, self.profile = block, profile
        self.bank = Bank("l1", max(room, 0))
        self.addresses: dict[SSAValue, int] = {}
        self.last = {value: op for op in block.ops for value in (*op.results, *op.operands)}
        """The op that reads a value last; of one that nobody reads, its own."""

    def run(self) -> None:
        """Chooses for every result, and gives back what is read for the last time."""
        for op in self.block.ops:
            if isinstance(op, RowOp) and op.ROW.group not in IN_DRAM:
                for value in op.results:
                    if self.may_move(value):
                        self.place(op, value)
            for value in {*op.operands, *op.results}:
                if value in self.addresses and self.last[value] is op:
                    self.bank.free(self.addresses.pop(value))

    def may_move(self, value: SSAValue) -> bool:
        """Whether only kernels of this function read a value."""
        encoding = layout.layout_of(value)
        if encoding is None or encoding.buffer_type != "dram" or encoding.layout != "tile" or not value.uses:
            return False
        readers = [use.operation for use in value.uses]
        return not any(isinstance(op, ReturnOp) or _group(op) in IN_DRAM for op in readers)

    def place(self, op: RowOp, value: SSAValue) -> None:
        """The first way to lie in L1 that fits."""
        old = layout.layout_of(value)
        assert old is not None
        shape = shape_of(value)
        in_dram, kind = describe(value), value.type
        assert isinstance(kind, TensorType)
        for spread, grid in self.spread_choices(op, shape):
            held = replace(in_dram, buffer_type="l1", memory_layout=spread, grid=grid)
            address = self.bank.fit(bank_bytes(held, self.profile))
            if address is None:
                continue
            if spread == "interleaved":
                new = layout.tile_layout(shape, old.data_type, "l1")
            else:
                new = layout.sharded_layout(shape, old.data_type, spread, grid)
            moved = Rewriter.replace_value_with_new_type(value, TensorType(kind.element_type, shape, new))
            self.last[moved] = self.last.pop(value)
            self.addresses[moved] = address
            op.properties["memory_config"] = layout.MemoryConfigAttr(
                layout.BufferTypeAttr.of("l1"), layout.TensorMemoryLayoutAttr.of(spread)
            )
            return

    def spread_choices(self, op: RowOp, shape: tuple[int, ...]) -> Iterator[Spread]:
        """How a kernel's result may lie, the best first."""
        rows, columns = tile_matrix(shape)
        wanted = SHARE * min(self.profile.cores, max(rows * columns, 1))
        for spread, grid in self.sharded(op, rows, columns):
            if grid[0] * grid[1] >= wanted:
                yield spread, grid
        yield "interleaved", (1, 1)

    def sharded(self, op: RowOp, rows: int, columns: int) -> Iterator[Spread]:
        """Shardings that the op's kernel can write."""
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
    """Ways to shard a matrix of tiles, the one on most cores first; `whole_rows`: no row is cut."""
    cores, (grid_rows, grid_columns) = profile.cores, profile.grid
    choices: list[Spread] = [("height_sharded", (_parts(rows, cores), 1))]
    if not whole_rows:
        choices.append(("block_sharded", (_parts(rows, grid_rows), _parts(columns, grid_columns))))
        choices.append(("width_sharded", (1, _parts(columns, cores))))
    return sorted(choices, key=lambda choice: -choice[1][0] * choice[1][1])


def _parts(tiles: int, cores: int) -> int:
    """Cores that hold shards where each of at most `cores` holds equally many tiles, the last perhaps fewer."""
    each = -(-tiles // max(min(cores, tiles), 1))
    return max(-(-tiles // max(each, 1)), 1)


def _group(op: Operation) -> str:
    return op.ROW.group if isinstance(op, RowOp) else ""
