"""Fuses a product plus one number per column into `linear`, and a convolution plus one per channel into its bias."""

from __future__ import annotations

from math import prod

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.locations import moved
from opscope.compiler.dialects.ttir_values import is_float, like, make, maker, read_once, shape_of
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
