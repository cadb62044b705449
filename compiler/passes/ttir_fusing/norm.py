"""Fuses RMS norm and layer norm along the last dim, with weight and bias: `rms_norm`, `layer_norm`."""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import like, make, maker, read_once, shape_of, splat
from opscope.compiler.passes.ttir_fusing.matching import along_last, fuses, orders

NORMS = ("layer_norm", "rms_norm")


@fuses("multiply", "div")
def normalised(op: RowOp) -> list[RowOp] | None:
    """Matches x / sqrt(mean(x^2) + epsilon); if x is y - mean(y), this is a layer norm of y."""
    for value, by in orders(op) if op.ROW.ttir == "multiply" else [tuple(op.operands)]:
        total = _under_one_over_root(by) if op.ROW.ttir == "multiply" else _under_root(by)
        epsilon = _spread(total, value)
        if epsilon is None or shape_of(value) != shape_of(op.results[0]):
            continue
        centred = _centred(value)
        name, source = ("rms_norm", value) if centred is None else ("layer_norm", centred)
        size = shape_of(value)[-1:]
        return [make(name, [source], op.results[0].type, op, normalized_shape=size, epsilon=epsilon)]
    return None


def _under_root(by: SSAValue) -> RowOp | None:
    """Returns the sum whose square root `by` is; else None."""
    root = maker(by, "sqrt")
    return maker(root.operands[0], "add") if root is not None else None


def _under_one_over_root(by: SSAValue) -> RowOp | None:
    """The same for one over the root: as `rsqrt`, or as ONNX's exporters write it, Reciprocal or Div of a Sqrt."""
    op = maker(by, "rsqrt", "reciprocal", "div")
    if op is None or (op.ROW.ttir == "div" and splat(op.operands[0]) != 1):
        return None
    return maker(op.operands[0], "add") if op.ROW.ttir == "rsqrt" else _under_root(op.operands[-1])


def _spread(total: RowOp | None, value: SSAValue) -> float | None:
    """Returns epsilon if `total` is mean(value^2) + epsilon; else None."""
    for average, small in orders(total) if total is not None else ():
        epsilon, mean = splat(small), maker(average, "mean")
        if epsilon is not None and mean is not None and along_last(mean) and _squared(mean.operands[0], value):
            return epsilon
    return None


def _squared(value: SSAValue, of: SSAValue) -> bool:
    op = maker(value, "multiply", "square", "pow")
    if op is None or op.operands[0] is not of:
        return False
    return op.ROW.ttir == "square" or (
        op.operands[1] is of if op.ROW.ttir == "multiply" else splat(op.operands[1]) == 2
    )


def _centred(value: SSAValue) -> SSAValue | None:
    """Returns y if `value` is y - mean(y); else None."""
    op = maker(value, "subtract")
    mean = maker(op.operands[1], "mean") if op is not None else None
    if op is None or mean is None or not along_last(mean) or mean.operands[0] is not op.operands[0]:
        return None
    return op.operands[0]


@fuses("multiply")
def weighted(op: RowOp) -> list[RowOp] | None:
    """Matches a norm times one weight per element of the last dim."""
    return _with(op, 1)


@fuses("add")
def shifted(op: RowOp) -> list[RowOp] | None:
    """Matches a weighted layer norm plus one bias per element of the last dim."""
    return _with(op, 2)


def _with(op: RowOp, operands: int) -> list[RowOp] | None:
    for normal, vector in orders(op):
        norm = maker(normal, *NORMS) if operands == 1 else maker(normal, "layer_norm")
        if norm is None or len(norm.operands) != operands or not read_once(normal):
            continue
        size = shape_of(normal)[-1]
        if (
            shape_of(vector)[-1:] != (size,)
            or prod(shape_of(vector)) != size
            or shape_of(normal) != shape_of(op.results[0])
        ):
            continue
        new_ops: list[RowOp] = []
        if shape_of(vector) != (size,):
            new_ops.append(make("reshape", [vector], like(vector, (size,)), op, shape=(size,)))
            vector = new_ops[0].results[0]
        fused = make(norm.ROW.ttir, [*norm.operands, vector], op.results[0].type, op, **norm.read())
        return [*new_ops, fused]
    return None
