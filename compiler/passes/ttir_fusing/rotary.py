"""Fuses rotary positions (Su et al. 2021) of two halves that are paired as Llama does: `rotary_embedding`."""

from __future__ import annotations

from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import is_float, like, make, maker, shape_of, splat
from opscope.compiler.ops.shapes import broadcast
from opscope.compiler.passes.ttir_fusing.matching import fuses, orders


@fuses("concat")
def halves(op: RowOp) -> list[RowOp] | None:
    """Matches [a cos - b sin, b cos + a sin] of the halves a and b, with angles for one half (JAX, ONNX)."""
    if len(op.operands) != 2 or not _along_last(op) or not is_float(op.results[0]):
        return None
    first, second = maker(op.operands[0], "subtract"), maker(op.operands[1], "add")
    if first is None or second is None:
        return None
    for (low, cosine), (high, sine) in _products(first.operands[0], first.operands[1]):
        source = _half(low, 0)
        if source is None or source is not _half(high, 1):
            continue
        for pair in orders(second):
            for (b, by_b), (a, by_a) in _products(*pair):
                same = _half(b, 1) is source and _half(a, 0) is source
                if same and _alike(by_b, cosine) and _alike(by_a, sine):
                    return _rotated(op, source, *(_doubled(op, v) for v in (cosine, sine)))
    return None


@fuses("add")
def turned(op: RowOp) -> list[RowOp] | None:
    """Matches x cos + [-b, a] sin with angles for the whole width (PyTorch, as Hugging Face writes it)."""
    if not is_float(op.results[0]):
        return None
    for left, right in orders(op):
        for (value, cosine), (quarter, sine) in _products(left, right):
            joined = maker(quarter, "concat")
            if joined is None or len(joined.operands) != 2 or not _along_last(joined):
                continue
            minus = _negated(joined.operands[0])
            if minus is None or _half(minus, 1) is not value or _half(joined.operands[1], 0) is not value:
                continue
            return _rotated(op, value, ([], cosine), ([], sine))
    return None


def _negated(value: SSAValue) -> SSAValue | None:
    """Returns b if `value` is -b; torchax multiplies by minus one."""
    op = maker(value, "neg", "multiply")
    if op is None or op.ROW.ttir == "neg":
        return op.operands[0] if op is not None else None
    return next((b for number, b in orders(op) if splat(number) == -1 and shape_of(b) == shape_of(value)), None)


def _rotated(
    op: RowOp, value: SSAValue, cosine: tuple[list[RowOp], SSAValue], sine: tuple[list[RowOp], SSAValue]
) -> list[RowOp] | None:
    shape = shape_of(value)
    for _, angle in (cosine, sine):
        if shape_of(angle)[-1:] != shape[-1:] or broadcast(shape, shape_of(angle)) != shape:
            return None
    if len(shape) != 4 or op.results[0].type != value.type:
        return None
    fused = make("rotary_embedding", [value, cosine[1], sine[1]], value.type, op)
    return [*cosine[0], *sine[0], fused]


def _doubled(op: RowOp, angle: SSAValue) -> tuple[list[RowOp], SSAValue]:
    """Returns the angles of one half as those of the whole width."""
    shape = shape_of(angle)
    if not shape:
        return [], angle
    twice = make("concat", [angle, angle], like(angle, (*shape[:-1], 2 * shape[-1])), op, dim=len(shape) - 1)
    return [twice], twice.results[0]


def _products(left: SSAValue, right: SSAValue) -> list[tuple[tuple[SSAValue, SSAValue], tuple[SSAValue, SSAValue]]]:
    """The factors of two products, each in both orders."""
    first, second = maker(left, "multiply"), maker(right, "multiply")
    if first is None or second is None:
        return []
    return [(a, b) for a in orders(first) for b in orders(second)]


def _half(value: SSAValue, which: int) -> SSAValue | None:
    """Returns the source of a value that is the first (0) or second (1) half of its last dim; else None."""
    op = maker(value, "slice_static")
    if op is None:
        return None
    shape, attrs = shape_of(op.operands[0]), op.read()
    half = shape[-1] // 2
    begins, ends = [0] * len(shape), list(shape)
    begins[-1], ends[-1] = which * half, (which + 1) * half
    whole = shape[-1] % 2 == 0 and (list(attrs["begins"]), list(attrs["ends"])) == (begins, ends)
    return op.operands[0] if whole and set(attrs["step"]) == {1} else None


def _along_last(op: RowOp) -> bool:
    rank = len(shape_of(op.results[0]))
    return op.read()["dim"] % rank == rank - 1


def _alike(left: SSAValue, right: SSAValue) -> bool:
    """Whether two values are one, or the same move of one: exporters broadcast an angle for each of its readers."""
    if left is right:
        return True
    first, second = maker(left, "reshape", "broadcast"), maker(right, "reshape", "broadcast")
    return (
        first is not None
        and second is not None
        and left.type == right.type
        and first.name == second.name
        and first.operands[0] is second.operands[0]
    )
