"""Window reductions by their names: running sums and products, average and max pools."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, TensorType, i32
from xdsl.ir import Operation, Region, SSAValue

from opscope.compiler.dialects.ttcore import ReduceTypeAttr
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.body import is_identity, recognise, recognise_each
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import maker, splat
from opscope.compiler.passes.stablehlo_to_ttir.reduce_window import POOLS, Window, pooled, window_of

RUNNING = {"sum": "cumsum", "prod": "cumprod"}
IDENTITY = {"sum": 0, "prod": 1}
_NO_OTHER = ", got a window that tt-mlir has no op for"


@named("stablehlo.reduce_window")
def reduce_window(e: Emit) -> list[SSAValue] | SSAValue | None:
    """Emits cumsum, cumprod, avg_pool2d with the product by the window's size, or max_pool2d; one a result."""
    count = len(e.op.results)
    window = window_of(e)
    if count > 1:
        return _each(e, window, count)
    fold = recognise(e.op.regions[0], e.result_type.element_type)
    if fold is None:
        raise e.refuse(f"expected a body of one op on two scalars{_NO_OTHER}")
    start = splat(e.op.operands[1])
    if fold.kernel in RUNNING and start == IDENTITY[fold.kernel] and (dim := _running_dim(e, window)) is not None:
        return e.emit(RUNNING[fold.kernel], [e.operands[0]], e.result_type, dim=dim)
    result = _average(e, window, e.operands[0], e.op.operands[0]) if fold.kernel == "sum" and start == 0 else None
    if result is None and (fold.kernel not in POOLS or fold.kernel == "sum" or len(_moving(window)) > 2):
        raise e.refuse(f"expected a running sum or product, or a pool over two dims{_NO_OTHER}")
    if result is None and fold.kernel == "min" and is_identity(fold, e.operands[1], e.result_type.element_type):
        return _least(e, window)
    return result  # a maximum pool is the same without tt-mlir's names


def _least(e: Emit, window: Window) -> SSAValue | None:
    """The least of a window is the largest of the negated values, negated: tt-mlir has no pool of minima."""
    if hasattr(e.result_type.element_type, "width"):  # the smallest integer has no negative
        return None
    pool = pooled(e, e.emit("neg", [e.operands[0]], e.operands[0].type), window, "max_pool2d")
    if pool is None:
        return None
    result = pool.result()
    return e.emit("neg", [result], result.type)


def _moving(window: Window) -> list[int]:
    """The dims along which a window is longer than one element, steps or has a padding."""
    sides = zip(window.size, window.stride, window.padding, strict=True)
    return [at for at, (size, step, edges) in enumerate(sides) if size != 1 or step != 1 or edges != (0, 0)]


def _each(e: Emit, window: Window, count: int) -> list[SSAValue]:
    """One pool for each operand. Raises StageFailure for other windows over several."""
    kinds = e.result_types
    folds = recognise_each(e.op.regions[0], [kind.element_type for kind in kinds])
    results: list[SSAValue] = []
    for at, fold in enumerate(folds or ()):
        start, value = e.values[e.op.operands[count + at]], e.operands[at]
        if kinds[at] != kinds[0] or fold.kernel not in POOLS or not is_identity(fold, start, kinds[at].element_type):
            break
        if fold.kernel == "sum":
            result = _average(e, window, value, e.op.operands[at])
        else:
            pool = pooled(e, value, window, POOLS[fold.kernel])
            result = pool.result() if pool is not None else None
        if result is None:
            break
        results.append(result)
    if len(results) != count:
        raise e.refuse(f"expected a pool over two dims for each operand{_NO_OTHER}")
    return results


@named("stablehlo.select_and_scatter")
def select_and_scatter(e: Emit) -> SSAValue | None:
    """The largest value of each window of an image gets what is scattered: the pool says which it is."""
    value, source, _ = e.operands
    shape, start, window = shape_of(value), splat(e.op.operands[2]), window_of(e)
    moving, element = _moving(window), e.result_type.element_type
    largest = recognise_selection(e.op.regions[0])
    if largest not in ("GE", "GT") or start is None or len(shape) != 4 or len(moving) != 2 or hasattr(element, "width"):
        return None
    fold = recognise(e.op.regions[1], element)
    edges = [window.padding[at][side] for side in range(2) for at in moving]
    if fold is None or fold.kernel != "sum":
        return None
    order = [*(d for d in range(4) if d not in moving)]
    order = [order[0], *moving, order[1]]
    full = e.permute(e.full(shape, element, start), order)
    value, source = (e.permute(v, order) for v in (value, source))
    n, rows, columns, channels = shape_of(value)
    small = shape_of(source)
    kind = TensorType(i32, small)
    _, places = e.foreign(
        "max_pool2d_with_indices",
        [value],
        [source.type, kind],
        kernel=DenseArrayBase.from_list(i32, [window.size[at] for at in moving]),
        stride=DenseArrayBase.from_list(i32, [window.stride[at] for at in moving]),
        dilation=DenseArrayBase.from_list(i32, [1, 1]),
        padding=DenseArrayBase.from_list(i32, edges),
        ceil_mode=BoolAttr.from_bool(False),
    )
    line = [n, small[1] * small[2], 1, channels]
    places, source = e.reshape(places, line), e.reshape(source, line)
    full = e.reshape(full, [n, rows * columns, 1, channels])
    word = ReduceTypeAttr.of("sum")
    result = e.emit("scatter", [full, places, source], full.type, dim=1, scatter_reduce_type=word)
    return e.permute(e.reshape(result, shape_of(value)), [order.index(d) for d in range(4)])


def recognise_selection(region: Region) -> str:
    """How a body compares its two arguments, in their order; empty if it does something else."""
    block = region.blocks[0]
    ops = list(block.ops)
    plain = len(ops) == 2 and ops[0].name == "stablehlo.compare" and list(ops[0].operands) == list(block.args)
    direction: Any = ops[0].attributes.get("comparison_direction") if plain else None
    return direction.value if direction is not None else ""


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


def _average(e: Emit, window: Window, value: SSAValue, operand: SSAValue) -> SSAValue | None:
    """A sum over windows is their mean, padding included, times their size."""
    source = maker(operand, "stablehlo.pad")
    if source is not None and (edges := _plain_edges(source)) is not None:
        value = e.values[source.operands[0]]
        window = window.wider(edges)
    size = prod(window.size)
    pool = pooled(e, value, window, "avg_pool2d", count_include_pad=True)
    if pool is None:
        return None
    if len(e.op.results) == 1 and _divided(e.op, size) is not None:
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
    attribute: Any = op.attributes[name]
    return tuple(int(v) for v in attribute.get_values())


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
