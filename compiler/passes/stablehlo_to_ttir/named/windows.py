"""Window reductions by their names: running sums and products, average and max pools."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.ir import Operation, SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.body import Fold, recognise
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import maker, splat
from opscope.compiler.passes.stablehlo_to_ttir.reduce_window import Window, pooled, window_of

RUNNING = {"sum": "cumsum", "prod": "cumprod"}
IDENTITY = {"sum": 0, "prod": 1}


@named("stablehlo.reduce_window")
def reduce_window(e: Emit) -> list[SSAValue] | SSAValue | None:
    """Emits cumsum, cumprod, avg_pool2d with the product by the window's size, or max_pool2d; one a result."""
    count = len(e.op.results)
    if count > 1:
        return None
    fold = recognise(e.op.regions[0], e.result_type.element_type)
    if fold is None:
        return None
    window = window_of(e)
    start = splat(e.op.operands[1])
    if fold.kernel in RUNNING and start == IDENTITY[fold.kernel] and (dim := _running_dim(e, window)) is not None:
        return e.emit(RUNNING[fold.kernel], [e.operands[0]], e.result_type, dim=dim)
    if fold.kernel == "sum" and start == 0:
        return _average(e, window, fold)
    return None


def _running_dim(e: Emit, window: Window) -> int | None:
    """Returns the dim along which each window reaches from its element back to the start; None if there is none."""
    shape = shape_of(e.operands[0])
    if any(n != 1 for n in (*window.stride, *window.dilation, *window.base)) or e.result_shape != shape:
        return None
    moving = [i for i, size in enumerate(window.size) if size != 1]
    if not moving:
        padded = any(edges != (0, 0) for edges in window.padding)
        whole = [i for i, n in enumerate(shape) if n == 1]
        return None if padded or not whole else whole[0]
    if len(moving) > 1:
        return None
    (dim,) = moving
    others = any(edges != (0, 0) for i, edges in enumerate(window.padding) if i != dim)
    fits = window.size[dim] == shape[dim] and window.padding[dim] == (shape[dim] - 1, 0)
    return dim if fits and not others else None


def _average(e: Emit, window: Window, fold: Fold) -> SSAValue | None:
    """A sum over windows is their mean, padding included, times their size."""
    value, source = e.operands[0], maker(e.op.operands[0], "stablehlo.pad")
    if source is not None and (edges := _plain_edges(source)) is not None:
        value = e.values[source.operands[0]]
        window = window.wider(edges)
    size = prod(window.size)
    pool = pooled(e, value, window, "avg_pool2d", count_include_pad=True)
    if pool is None:
        return None
    if _divided(e.op, size) is not None:
        return pool.result()
    count = e.constant(pool.type, size)
    return pool.result(e.emit("multiply", [pool.value, count], pool.type))


def _plain_edges(pad: Operation) -> list[tuple[int, int]] | None:
    """Returns the edges that a pad by zeros adds; None for other pads."""
    low, high, inner = (
        _numbers(pad, f"{name}") for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if splat(pad.operands[1]) != 0 or any(inner) or any(n < 0 for n in (*low, *high)):
        return None
    return list(zip(low, high, strict=True))


def _numbers(op: Operation, name: str) -> tuple[int, ...]:
    held: Any = op.attributes[name]
    return tuple(int(v) for v in held.get_values())


def _divided(op: Operation, size: int) -> Operation | None:
    """Returns the division of the windows' sums by their size, if nothing else reads the sums."""
    users = [use.operation for use in op.results[0].uses]
    if len(users) != 1 or users[0].name != "stablehlo.divide" or users[0].operands[0] is not op.results[0]:
        return None
    return users[0] if splat(users[0].operands[1]) == size else None


@named("stablehlo.divide")
def divide(e: Emit) -> SSAValue | None:
    """A division that an average pool has done already hands its result on."""
    sums = maker(e.op.operands[0], "stablehlo.reduce_window")
    if sums is None or len(sums.results) != 1:
        return None
    pool = e.operands[0].owner
    while isinstance(pool, Operation) and pool.name in ("ttir.permute", "ttir.reshape"):
        pool = pool.operands[0].owner
    return e.operands[0] if isinstance(pool, Operation) and pool.name == "ttir.avg_pool2d" else None
