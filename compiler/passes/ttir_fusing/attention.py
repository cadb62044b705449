"""Fuses softmax(Q K^T scale + mask) V into `scaled_dot_product_attention`."""

from __future__ import annotations

from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import is_float, like, make, maker, read_once, shape_of, splat
from opscope.compiler.passes.ttir_fusing.matching import fuses, orders


@fuses("matmul")
def attention(op: RowOp) -> list[RowOp] | None:
    """Matches attention on tensors of (batch, heads, positions, width), with any mask that broadcasts to the scores."""
    weights, values = op.operands
    flags = op.read()
    softmax = maker(weights, "softmax")
    if softmax is None or flags["transpose_a"] or not read_once(weights) or not is_float(weights):
        return None
    rank = len(shape_of(weights))
    if rank != 4 or softmax.read()["dimension"] % rank != rank - 1:
        return None
    scores, mask = _masked(softmax.operands[0])
    found = _scaled(scores)
    if found is None:
        return None
    product, scale = found
    if product.read()["transpose_a"] or len(shape_of(product.results[0])) != rank:
        return None
    query, key = product.operands
    new_ops: list[RowOp] = []
    if not product.read()["transpose_b"]:
        new_ops.append(_turned(key, op))
        key = new_ops[-1].results[0]
    if flags["transpose_b"]:
        new_ops.append(_turned(values, op))
        values = new_ops[-1].results[0]
    if len({shape_of(v)[:2] for v in (query, key, values)}) != 1:
        return None
    operands = [query, key, values, *([mask] if mask is not None else [])]
    fused = make("scaled_dot_product_attention", operands, op.results[0].type, op, is_causal=False, scale=scale)
    return [*new_ops, fused]


def _turned(value: SSAValue, source: RowOp) -> RowOp:
    b, h, rows, columns = shape_of(value)
    return make("permute", [value], like(value, (b, h, columns, rows)), source, permutation=(0, 1, 3, 2))


def _masked(value: SSAValue) -> tuple[SSAValue, SSAValue | None]:
    """Splits scores + mask into (scores, mask)."""
    op = maker(value, "add")
    if op is not None and read_once(value):
        for scores, mask in orders(op):
            if shape_of(scores) == shape_of(value) and _scaled(scores) is not None:
                return scores, mask
    return value, None


def _scaled(value: SSAValue) -> tuple[RowOp, float] | None:
    """Returns (product, number) for a matrix product scaled by a number and read by one op alone, else None."""
    if not read_once(value):
        return None
    op = maker(value, "multiply", "div")
    if op is None:
        product = maker(value, "matmul")
        return (product, 1.0) if product is not None else None
    pairs = orders(op) if op.ROW.ttir == "multiply" else [tuple(op.operands)]
    for inner, by in pairs:
        number = splat(by)
        product = maker(inner, "matmul")
        if number and product is not None and read_once(inner):
            return product, number if op.ROW.ttir == "multiply" else 1.0 / number
    return None
