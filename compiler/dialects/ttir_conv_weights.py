"""Finds permutations that bring a convolution's weights into their order, which the host does before tiling.

On the device, PyTorch's (out, in, 3, 3) would take tiles of 1,024 words for 9 values each.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue, Use
from xdsl.traits import SymbolTable

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.load_cached import LoadCachedOp

CONVOLUTIONS = ("ttir.conv2d", "ttir.conv3d")


def prepares_weights(op: Operation) -> bool:
    """Whether an op permutes values that only convolutions read, as their weights.

    They may read the values themselves or elementwise results of them, also in a function that is evaluated once.
    """
    if op.name != "ttir.permute":
        return False
    todo: list[tuple[SSAValue, Operation | None]] = [(op.results[0], None)]
    seen: set[SSAValue] = set()
    while todo:
        value, load = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            followed = _follow(use, load)
            if followed is None:
                return False
            todo += followed
        if not value.uses:
            return False
    return True


def _follow(use: Use, load: Operation | None) -> Iterable[tuple[SSAValue, Operation | None]] | None:
    """Returns where weights are passed on, each with the op that loads the results inside a function evaluated once.

    Returns None if they are used as anything but weights.
    """
    reader = use.operation
    if reader.name in CONVOLUTIONS:
        return () if use.index == 1 else None
    if isinstance(reader, LoadCachedOp):
        name = reader.properties["callee"]
        assert isinstance(name, SymbolRefAttr)
        callee = SymbolTable.lookup_symbol(reader, name)
        assert isinstance(callee, FuncOp)
        return ((callee.body.blocks[0].args[use.index], reader),)
    if isinstance(reader, ReturnOp):
        return None if load is None else ((load.results[use.index], None),)
    if not isinstance(reader, RowOp) or not reader.name.startswith("ttir."):
        return None
    # A reshape gives 1-D windows a second dim; a batch norm scales weights by channel.
    if reader.ROW.ttir == "reshape" or reader.ROW.group == "eltwise":
        return ((reader.results[0], load),)
    return None
