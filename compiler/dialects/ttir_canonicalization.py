"""Patterns of xDSL's `canonicalize` for ttir ops: moves without effect, moves that can be merged, moves of constants.

`@canonicalizes` assigns a pattern to its op; `dialects/from_row.py` passes it to xDSL as the op's trait. No pattern
changes a bit of any result, except that a product with one, once removed, no longer rounds (`ttir_constants.by_one`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.locations import reshaped, take_over_location
from opscope.compiler.dialects.ttir_values import (
    element,
    full,
    like,
    make,
    maker,
    move_name_to_source,
    read_once,
    shape_of,
    splat,
)

Rule = Callable[[RowOp], "SSAValue | RowOp | None"]
"""Returns what replaces an op: an existing value or a new op; None if the op stays."""
_RULES: dict[str, list[Rule]] = {}


class Canonicalization(RewritePattern):
    """Applies the first rule of an op that matches."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replaces the op if a rule matches."""
        assert isinstance(op, RowOp)
        for rule in self.rules:
            replacement = rule(op)
            if isinstance(replacement, RowOp):
                rewriter.replace(op, replacement)
                return
            if replacement is not None:
                take_over_location(replacement, op)
                rewriter.replace(op, [], [replacement])
                return


def patterns_of(name: str) -> tuple[RewritePattern, ...]:
    """Returns the patterns of ttir op `name` (without prefix)."""
    from opscope.compiler.dialects import ttir_constants  # noqa: F401  (notes its rules)

    rules = _RULES.get(name, ())
    return (Canonicalization(rules),) if rules else ()


def canonicalizes(*names: str) -> Callable[[Rule], Rule]:
    """Decorator for a rule of these ops."""

    def note(rule: Rule) -> Rule:
        for name in names:
            _RULES.setdefault(name, []).append(rule)
        return rule

    return note


@canonicalizes("reshape", "broadcast", "typecast", "slice_static", "pad", "concat", "reverse")
def moves_nothing(op: RowOp) -> SSAValue | None:
    """Removes a move whose result has the type of its only operand. Permutations and reversals have their own rules."""
    if len(op.operands) != 1 or op.operands[0].type != op.results[0].type:
        return None
    if op.ROW.ttir == "reverse" and any(shape_of(op.results[0])[d] > 1 for d in op.read()["dimensions"]):
        return None
    if op.ROW.ttir == "pad" and any(n for key in ("padding", "interior") for n in op.read().get(key, ())):
        return None  # as much is cut off as is added
    return op.operands[0]


@canonicalizes("reshape", "broadcast", "permute")
def of_a_constant(op: RowOp) -> RowOp | None:
    """Replaces a move of a constant number by that constant in the new shape."""
    source = maker(op.operands[0], "full")
    number = splat(op.operands[0]) if source is not None else None
    if source is None or number is None:
        return None
    constant = full(shape_of(op.results[0]), element(op.results[0]), number, op)
    constant.properties["fill_value"] = source.properties["fill_value"]
    return constant


@canonicalizes("reshape")
def reshape_of_a_reshape(op: RowOp) -> RowOp | None:
    """Merges two reshapes."""
    before = maker(op.operands[0], "reshape")
    if before is None:
        return None
    move_name_to_source(op.operands[0])
    return make("reshape", [before.operands[0]], op.results[0].type, op, shape=shape_of(op.results[0]))


@canonicalizes("reshape")
def reshape_of_a_reduction(op: RowOp) -> RowOp | None:
    """Makes a reduction keep its dims itself, in place of a reshape."""
    before = maker(op.operands[0])
    if before is None or before.ROW.group != "reduce" or not read_once(op.operands[0]):
        return None
    attrs = before.read()
    if attrs.get("keep_dim", True):
        return None
    dims = set(attrs["dim_arg"])
    kept = tuple(1 if i in dims else n for i, n in enumerate(shape_of(before.operands[0])))
    if kept != shape_of(op.results[0]):
        return None
    reduction = make(before.ROW.ttir, before.operands, op.results[0].type, before, **{**attrs, "keep_dim": True})
    reduction.location = reshaped(before, op)
    return reduction


@canonicalizes("permute")
def permute_of_a_permute(op: RowOp) -> SSAValue | RowOp | None:
    """Merges two permutations, and removes one that leaves every dim in its place."""
    order = op.read()["permutation"]
    if order == tuple(range(len(order))):
        return op.operands[0]
    before = maker(op.operands[0], "permute")
    if before is None:
        return None
    move_name_to_source(op.operands[0])
    first = before.read()["permutation"]
    return make("permute", [before.operands[0]], op.results[0].type, op, permutation=[first[i] for i in order])


@canonicalizes("permute")
def permute_of_nothing_but_ones(op: RowOp) -> RowOp | None:
    """Replaces a permutation that only moves dims of size 1 by a reshape, since elements keep their order."""
    order, shape = op.read()["permutation"], shape_of(op.operands[0])
    moving = [d for d in order if shape[d] != 1]
    if moving != sorted(moving):
        return None
    return make("reshape", op.operands, op.results[0].type, op, shape=shape_of(op.results[0]))


@canonicalizes("broadcast")
def broadcast_of_a_broadcast(op: RowOp) -> RowOp | None:
    """Merges two broadcasts."""
    before = maker(op.operands[0], "broadcast")
    if before is None:
        return None
    return broadcast(before.operands[0], shape_of(op.results[0]), op)


def broadcast(value: SSAValue, shape: Sequence[int], source: Operation) -> RowOp:
    """Returns a new op that repeats dims of size 1 to `shape`, as `make` does."""
    factors = [new // n if n else 1 for n, new in zip(shape_of(value), shape, strict=True)]
    return make("broadcast", [value], like(value, shape), source, broadcast_dimensions=factors)


@canonicalizes("neg", "logical_not", "bitwise_not", "reverse")
def its_own_inverse(op: RowOp) -> SSAValue | None:
    """Removes two ops in a row that undo each other."""
    before = maker(op.operands[0], op.ROW.ttir)
    return before.operands[0] if before is not None and before.properties == op.properties else None
