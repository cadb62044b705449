"""Fuses a product plus one number per column into `linear`, and what is done with a convolution's channels into it.

A bias per channel is the convolution's own. Scaling and shifting by parameters are folded into its weights and bias, so
that a batch norm with known statistics costs nothing: the changed weights are computed only once
(`const-eval-hoist-transform`). Nothing is folded unless the parameters are known to stay the same.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.locations import moved
from opscope.compiler.dialects.ttir_values import is_float, like, make, maker, read_once, shape_of
from opscope.compiler.passes.tt_populate_argument_types import constant_arguments
from opscope.compiler.passes.ttir_fusing.matching import fuses, orders


@fuses("add")
def bias(op: RowOp) -> list[RowOp] | None:
    """Matches x W + b and conv(x, W) + b."""
    for value, vector in orders(op):
        shaped = maker(value, "reshape")
        if shaped is not None and read_once(value) and shape_of(shaped.operands[0])[-1:] == shape_of(value)[-1:]:
            value = shaped.operands[0]  # columns stay columns: the reshape can follow the bias
        product = maker(value, "matmul", "conv2d")
        if product is None or len(product.operands) != 2 or not read_once(value):
            continue
        if shaped is None and shape_of(value) != shape_of(op.results[0]):
            continue
        size = shape_of(value)[-1:]
        if shape_of(vector)[-1:] != size or prod(shape_of(vector)) != prod(size) or not is_float(value):
            continue
        shape = (1, 1, 1, *size) if product.ROW.ttir == "conv2d" else size
        new_ops: list[RowOp] = []
        if shape_of(vector) != shape:
            new_ops.append(make("reshape", [vector], like(vector, shape), op, shape=shape))
            vector = new_ops[0].results[0]
        name = "linear" if product.ROW.ttir == "matmul" else "conv2d"
        new_ops.append(make(name, [*product.operands, vector], value.type, op, **product.read()))
        if shaped is not None:
            if shaped.results[0].type != op.results[0].type:
                continue
            new_ops[-1].location = moved(op.location, "reshape", shape_of(op.results[0]))
            new_ops.append(make("reshape", new_ops[-1].results, op.results[0].type, op, **shaped.read()))
        return new_ops
    return None


def is_computed_once(value: SSAValue) -> bool:
    """Whether a value depends on parameters and constants alone."""
    op = maker(value)
    if op is not None:
        return op.ROW.group not in ("random", "collective", "control", "host") and all(
            is_computed_once(v) for v in op.operands
        )
    if not isinstance(value, BlockArgument):
        return False
    func = value.block.parent_op()
    return isinstance(func, FuncOp) and constant_arguments(func)[value.index]


def _channels(op: RowOp, value: SSAValue, vector: SSAValue) -> RowOp | None:
    """Returns the convolution that makes `value`, if `vector` is constant and has a number per channel or for all."""
    conv = maker(value, "conv2d")
    if conv is None or not read_once(value) or value.type != op.results[0].type:
        return None
    size, count = shape_of(value)[-1], prod(shape_of(vector))
    # As many numbers as channels may also be one per pixel.
    fits = count == 1 or (count == size and shape_of(vector)[-1] == size)
    return conv if fits and is_computed_once(vector) else None


def _row(vector: SSAValue, source: RowOp, new_ops: list[RowOp]) -> SSAValue:
    """Reshapes a vector to (1, 1, 1, channels)."""
    if len(shape_of(vector)) == 4:
        return vector
    new_ops.append(
        make(
            "reshape",
            [vector],
            like(vector, (1, 1, 1, prod(shape_of(vector)))),
            source,
            shape=(1, 1, 1, prod(shape_of(vector))),
        )
    )
    return new_ops[-1].results[0]


@fuses("multiply")
def scaled(op: RowOp) -> list[RowOp] | None:
    """Rewrites conv(x, W) s as conv(x, W s), with the bias b s."""
    for value, vector in orders(op):
        conv = _channels(op, value, vector)
        if conv is None or not is_computed_once(conv.operands[1]):
            continue
        new_ops: list[RowOp] = []
        row = _row(vector, op, new_ops)
        operands = [conv.operands[0]]
        for old in conv.operands[1:]:
            new_ops.append(make("multiply", [old, row], old.type, op))
            operands.append(new_ops[-1].results[0])
        return [*new_ops, make("conv2d", operands, op.results[0].type, op, **conv.read())]
    return None


@fuses("subtract")
def lowered(op: RowOp) -> list[RowOp] | None:
    """Rewrites conv(x, W) - m as a convolution with the bias b - m."""
    value, vector = op.operands
    conv = _channels(op, value, vector)
    return None if conv is None else _shifted(op, conv, vector, "subtract")


@fuses("add")
def raised(op: RowOp) -> list[RowOp] | None:
    """Rewrites conv(x, W, b) + c as a convolution with the bias b + c."""
    for value, vector in orders(op):
        conv = _channels(op, value, vector)
        if conv is not None and len(conv.operands) == 3:
            return _shifted(op, conv, vector, "add")
    return None


def _shifted(op: RowOp, conv: RowOp, vector: SSAValue, how: str) -> list[RowOp] | None:
    new_ops: list[RowOp] = []
    row = _row(vector, op, new_ops)
    if len(conv.operands) == 3:
        wide = conv.operands[2]
        new_ops.append(make(how, [wide, row], wide.type, op))
    elif prod(shape_of(vector)) == shape_of(op.results[0])[-1]:
        new_ops.append(make("neg", [row], row.type, op))
    else:
        return None
    operands = [*conv.operands[:2], new_ops[-1].results[0]]
    return [*new_ops, make("conv2d", operands, op.results[0].type, op, **conv.read())]
