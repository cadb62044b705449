"""Pass `ttir-decompose-buda`: replaces ops for which TT-Buda has no kernel; many come from a backward pass.

| op | becomes |
|---|---|
| `neg(a)` | `a * -1` |
| `rsqrt(a)`, `div(a, b)` | `reciprocal(sqrt(a))`, `a * reciprocal(b)` |
| `minimum(a, b)` | `-maximum(-a, -b)` |
| `maximum(a, 0)` | `relu(a)`, done while packing |
| `gt(a, b)` | `1 - relu(1 - relu((a - b) * 2^126))`; `lt`, `ge`, `le` alike |
| `eq(a, b)` | `relu(1 - abs(a - b) * 2^126)`; `ne` alike |
| `where(c, a, b)` | `c * a + (1 - c) * b` |
| `clamp_tensor(a, b, c)` | `minimum(maximum(a, b), c)` |
| `erfc(a)` | `1 - erf(a)` |
| `pow(a, n)` for a known multiple of a half up to 8 | products of `a` and `sqrt(a)`, their reciprocal |
| `log1p(a)`, `expm1(a)` | `log(1 + a)`, `exp(a) - 1` |
| `gather`, adding `scatter` of rows whose numbers the host has | products with its rows of zeros and a one |
| `topk(a, k)` for k up to 8 | `k` maxima, each taken out before the next |
| `pad(a, number)` | `pad(a, 0)` plus what the host makes |
| `max_pool2d` with padding | one without, of the padded image; `min_pool2d` is `-max_pool2d(-a)` |
| `logical_and`, `_or`, `_xor`, `_not` | `c * d`, `maximum(c, d)`, `abs(c - d)`, `1 - c` |
| `reduce_or`, `reduce_and`, `min` | `max(c)`, `1 - max(1 - c)`, `-max(-a)` |

From then on truth values are the numbers 0 and 1; an op that stays and takes truth values has them converted back.
2^126 times the smallest difference of two Float16_b is 1 or more, so that comparisons are exact (TT-Buda takes 1e4,
within which unequal numbers count as equal). As in TT-Buda, an Inf or NaN that a `where` does not select still makes
its result NaN. Ops of the host are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.buda.graph import NodeKind
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.known_numbers import known_number
from opscope.compiler.dialects.ttir_values import element, full, make, shape_of, splat
from opscope.compiler.ir.functions import functions
from opscope.compiler.passes.ttir_decompose_buda import indexing
from opscope.compiler.passes.ttir_decompose_buda.sums import AMPLIFIER, Sums, floats
from opscope.compiler.translations.ttir_to_graph.arguments import parameters
from opscope.compiler.translations.ttir_to_graph.hosts import host_values
from opscope.compiler.translations.ttir_to_graph.pools import nonnegative

MOST_EXPONENT = 8


@dataclass(frozen=True)
class TtirDecomposeBuda(ModulePass):
    """Decomposes the ops. With `all_inputs` no argument counts as a parameter."""

    name = "ttir-decompose-buda"
    all_inputs: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for func in functions(op):
            _decompose(func, self.all_inputs)


def _decompose(func: FuncOp, all_inputs: bool) -> None:
    block = func.body.blocks[0]
    on_host = host_values(block, parameters(block, all_inputs))
    truths: dict[SSAValue, Attribute] = {}
    for op in list(block.ops):
        if isinstance(op, ReturnOp):
            _return(op, func)
        elif isinstance(op, RowOp) and op.ROW.ttir == "topk" and op.operands[0] not in on_host:
            top = indexing.top_k(Sums(op, on_host))
            if top is not None:
                for result, replacement in zip(op.results, top, strict=True):
                    result.replace_all_uses_with(replacement)
                block.erase_op(op)
        elif isinstance(op, RowOp) and len(op.results) == 1 and op.results[0] not in on_host:
            rule = RULES.get(op.ROW.ttir)
            sums = Sums(op, on_host)
            replacement = rule(sums) if rule is not None else None
            replacement = sums.retyped() if replacement is None else replacement
            if replacement is None:
                _restore(op, truths)
                continue
            if replacement.type != op.results[0].type:
                truths[replacement] = op.results[0].type
            op.results[0].replace_all_uses_with(replacement)
            block.erase_op(op)
        elif isinstance(op, RowOp):
            _restore(op, truths)


def _restore(op: RowOp, truths: Mapping[SSAValue, Attribute]) -> None:
    """Converts back the operands of an op that are numbers in place of truth values."""
    block = op.parent
    assert block is not None
    for i, value in enumerate(op.operands):
        if value in truths and op.ROW.ttir != "typecast":
            typecast = make("typecast", [value], truths[value], op)
            block.insert_op_before(typecast, op)
            op.operands[i] = typecast.results[0]


def _return(op: ReturnOp, func: FuncOp) -> None:
    """Converts results back to the types that the function declares."""
    for i, (value, declared) in enumerate(zip(op.operands, func.function_type.outputs, strict=True)):
        if value.type != declared:
            typecast = make("typecast", [value], declared, op)
            func.body.blocks[0].insert_op_before(typecast, op)
            op.operands[i] = typecast.results[0]


def _greater(s: Sums, first: int, second: int) -> SSAValue:
    return s.less(_not_greater(s, first, second))


def _not_greater(s: Sums, first: int, second: int) -> SSAValue:
    return s.do("relu", s.less(s.do("relu", s.amplified(first, second))))


def _equal(s: Sums) -> SSAValue:
    return s.do("relu", s.less(s.do("abs", s.amplified(0, 1))))


def _where(s: Sums) -> SSAValue:
    condition, *choices = s.op.operands
    known = known_number(condition)
    if known is not None:
        return s.spread(choices[0 if known else 1])
    chosen = s.read(0)
    for kept, other in ((1, 0), (0, 1)):
        # What the host chooses may be Inf or NaN where it is not selected.
        if condition in s.on_host and choices[kept] in s.on_host:
            zero = s.number(0)
            pair = (zero, s.read(1 + kept)) if kept else (s.read(1 + kept), zero)
            summand = s.put(make("where", [s.spread(condition), *pair], s.kind, s.op))
            factor = chosen if kept else s.less(chosen)
            return s.do("add", s.do("multiply", factor, s.read(1 + other)), summand)
    first, second = s.do("multiply", chosen, s.read(1)), s.do("multiply", s.less(chosen), s.read(2))
    return s.do("add", first, second)


def _div(s: Sums) -> SSAValue | None:
    divisor = s.op.operands[1]
    if s.on_host.get(divisor, NodeKind.INPUT) is not NodeKind.INPUT:
        return None  # The host inverts it, once.
    inverse = s.put(make("reciprocal", [divisor], divisor.type, s.op))
    return s.do("multiply", s.op.operands[0], inverse)


def _maximum(s: Sums) -> SSAValue | None:
    for value, other in ((0, 1), (1, 0)):
        fits = s.op.operands[value].type == s.op.results[0].type
        if fits and splat(s.op.operands[other]) == 0 and s.op.operands[value] not in s.on_host:
            return s.do("relu", s.op.operands[value])
    return None


def _typecast(s: Sums) -> SSAValue | None:
    """Converts a number to a truth value, whether it is not zero; a value that is already such a number stays."""
    value, result = s.op.operands[0], s.op.results[0]
    if value.type == result.type:
        return value
    if str(element(result)) != "i1" or not floats(value):
        return None
    return s.less(s.do("relu", s.less(s.do("abs", s.do("multiply", value, s.number(AMPLIFIER))))))


def _pow(s: Sums) -> SSAValue | None:
    """A known exponent that is a multiple of a half: products, a root, a reciprocal; any other one is refused later."""
    exponent = known_number(s.op.operands[1])
    if exponent is None or exponent * 2 != int(exponent * 2) or abs(exponent) > MOST_EXPONENT or exponent == 0:
        return None
    base = s.read(0)
    factors = [base] * int(abs(exponent))
    if abs(exponent) % 1:
        factors.append(s.do("sqrt", base))
    result = factors[0]
    for factor in factors[1:]:
        result = s.do("multiply", result, factor)
    return s.do("reciprocal", result) if exponent < 0 else result


def _clamp(s: Sums) -> SSAValue:
    low = s.do("maximum", s.read(0), s.read(1))
    return s.negative(s.do("maximum", s.negative(low), s.negative(s.read(2))))


def _least(s: Sums) -> SSAValue | None:
    value = s.op.operands[0]
    return s.negative(_reduced(s, _product(s, value, -1))) if floats(value) else None


def _any(s: Sums) -> SSAValue | None:
    value = s.op.operands[0]
    return _reduced(s, value) if floats(value) else None


def _all(s: Sums) -> SSAValue | None:
    value = s.op.operands[0]
    if not floats(value):
        return None
    opposite = s.put(make("subtract", [s.put(_of(value, 1, s)), value], value.type, s.op))
    return s.less(_reduced(s, opposite))


def _reduced(s: Sums, value: SSAValue) -> SSAValue:
    return s.put(make("max", [value], s.kind, s.op, **s.op.read()))


def _product(s: Sums, value: SSAValue, number: float) -> SSAValue:
    return s.put(make("multiply", [value, s.put(_of(value, number, s))], value.type, s.op))


def _pad(s: Sums) -> SSAValue | None:
    """Adds another number than zero to what the padding leaves zero; the host makes that summand."""
    attrs, image, *number = s.op.read(), *s.op.operands
    value = known_number(number[0]) if number else float(attrs.get("value", 0))
    if value == 0 and not number:
        return None
    if number and number[0] not in s.on_host:
        return None
    padded = s.put(make("pad", [image], s.kind, s.op, **{**attrs, "value": 0.0}))
    if value == 0:
        return padded
    nothing = s.put(full(shape_of(image), s.kind.element_type, 0, s.op))
    summand = s.put(make("pad", [nothing, *number], s.kind, s.op, **attrs))
    return s.do("add", padded, summand)


def _max_pool(s: Sums) -> SSAValue | None:
    """Pads before the pool with the lowest number, unless nothing is negative: a window's picker pads with zeros."""
    image = s.op.operands[0]
    if not any(s.op.read()["padding"]) or nonnegative(image):
        return None
    return _pooled(s, image)


def _min_pool(s: Sums) -> SSAValue:
    image = s.op.operands[0]
    return s.negative(_pooled(s, _product(s, image, -1)))


def _of(value: SSAValue, number: float, s: Sums) -> Operation:
    return full(shape_of(value), s.kind.element_type, number, s.op)


def _pooled(s: Sums, image: SSAValue) -> SSAValue:
    """Returns the maximum over windows of the image, padded before with the lowest number."""
    attrs = s.op.read()
    top, bottom, left, right = attrs["padding"]
    if any(attrs["padding"]):
        n, h, w, c = shape_of(image)
        size = TensorType(s.kind.element_type, [n, h + top + bottom, w + left + right, c])
        edges = (0, 0, top, bottom, left, right, 0, 0)
        lowest = s.put(make("pad", [s.put(_of(image, 0, s))], size, s.op, padding=edges, value=indexing.LOWEST))
        padded = s.put(make("pad", [image], size, s.op, padding=edges, value=0.0))
        image = s.put(make("add", [padded, lowest], size, s.op))
    return s.put(make("max_pool2d", [image], s.kind, s.op, **{**attrs, "padding": (0, 0, 0, 0)}))


RULES: dict[str, Callable[[Sums], SSAValue | None]] = {
    "clamp_tensor": _clamp,
    "div": _div,
    "eq": _equal,
    "erfc": lambda s: s.less(s.do("erf", s.read(0))),
    "expm1": lambda s: s.do("subtract", s.do("exp", s.read(0)), s.number(1)),
    "gather": indexing.gather,
    "ge": lambda s: _not_greater(s, 1, 0),
    "gt": lambda s: _greater(s, 0, 1),
    "le": lambda s: _not_greater(s, 0, 1),
    "log1p": lambda s: s.do("log", s.do("add", s.read(0), s.number(1))),
    "logical_and": lambda s: s.do("multiply", s.read(0), s.read(1)),
    "logical_not": lambda s: s.less(s.read(0)),
    "logical_or": lambda s: s.do("maximum", s.read(0), s.read(1)),
    "logical_xor": lambda s: s.do("abs", s.do("subtract", s.read(0), s.read(1))),
    "lt": lambda s: _greater(s, 1, 0),
    "max_pool2d": _max_pool,
    "maximum": _maximum,
    "min": _least,
    "min_pool2d": _min_pool,
    "minimum": lambda s: s.negative(s.do("maximum", s.negative(s.read(0)), s.negative(s.read(1)))),
    "ne": lambda s: s.less(_equal(s)),
    "neg": lambda s: s.negative(s.read(0)),
    "pad": _pad,
    "pow": _pow,
    "reduce_and": _all,
    "reduce_or": _any,
    "rsqrt": lambda s: s.do("reciprocal", s.do("sqrt", s.read(0))),
    "scatter": indexing.scatter,
    "typecast": _typecast,
    "where": _where,
}
"""ttir op -> the rule that replaces it, which returns None if the op stays."""

__all__ = ["RULES", "TtirDecomposeBuda"]
