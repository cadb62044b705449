"""Pass `ttir-erase-inverse-ops`: removes data movements that cancel each other.

A movement sinks below the elementwise ops and products that read it, if that costs no other movement, until it meets
its inverse. Two movements in a row become one, or none if they cancel (`ttir_canonicalization.py`). The pass runs until
nothing changes. If an op then makes its result in another order, its location notes that
(`compiler/dialects/locations.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.transforms.dead_code_elimination import region_dce

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.locations import mark_parts, moved, reshaped
from opscope.compiler.dialects.ttir_canonicalization import patterns_of
from opscope.compiler.dialects.ttir_conv_weights import prepares_weights
from opscope.compiler.dialects.ttir_values import like, make, maker, move_name_to_source, read_once, shape_of
from opscope.compiler.ops.shapes import Shape
from opscope.compiler.passes.ttir_implicit_broadcast_fold import broadcasts

MOVES = ("permute", "reshape")


@dataclass(frozen=True)
class TtirEraseInverseOps(ModulePass):
    """Sinks permutations and reshapes below elementwise ops (with numbers per channel, too) and products until they
    meet their inverse: a PyTorch model is channels last throughout.

    Without `sink` only movements that cancel where they stand go; ops without readers go too.
    """

    name = "ttir-erase-inverse-ops"
    sink: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        rules: list[RewritePattern] = [_Cancel()]
        if self.sink:
            rules += [_Sink(sunk_permute), _Sink(sunk_reshape), _Sink(product_of_reshaped)]
        PatternRewriteWalker(GreedyRewritePatternApplier(rules), post_walk_func=region_dce).rewrite_module(op)


class _Cancel(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replaces two movements in a row by one or none."""
        if isinstance(op, RowOp) and op.name.startswith("ttir.") and op.ROW.ttir in MOVES:
            for pattern in patterns_of(op.ROW.ttir):
                pattern.match_and_rewrite(op, rewriter)


class _Sink(RewritePattern):
    def __init__(self, rule: Callable[[RowOp], list[RowOp] | None]) -> None:
        self.rule = rule

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replaces an op by the ops that the rule returns, the last of which has the op's result."""
        if isinstance(op, RowOp):
            ops = self.rule(op)
            if ops:
                rewriter.replace(op, ops)


def sunk_permute(op: RowOp) -> list[RowOp] | None:
    """Replaces an elementwise op whose operands are all permuted alike by a permutation of its result.

    An operand with only one dim, such as a number per channel, is reshaped so that the dim is where it was before. An
    operand with a single element is not moved.
    """
    shape = shape_of(op.results[0])
    permuted = _moved(op, "permute", lambda value: sum(n != 1 for n in shape_of(value)) < 2)
    if permuted is None:
        return None
    orders = {move.read()["permutation"] for move in permuted.values()}
    if len(orders) != 1 or any(len(shape_of(v)) != len(shape) for v in permuted):
        return None
    (order,) = orders
    new_ops: list[RowOp] = []
    operands: list[SSAValue] = []
    for value, source in zip(op.operands, _sources(op, permuted), strict=True):
        if value not in permuted and prod(shape_of(value)) != 1:
            wide = _turned_back((*[1] * (len(shape) - len(shape_of(value))), *shape_of(value)), order)
            new_ops.append(make("reshape", [value], like(value, wide), op, shape=wide))
            source = new_ops[-1].results[0]
        operands.append(source)
    inner = make(op.ROW.ttir, operands, like(op.results[0], _turned_back(shape, order)), op, **op.read())
    mark_parts(new_ops, ())
    inner.location = moved(op.location, "permute", order)
    return [*new_ops, inner, make("permute", inner.results, op.results[0].type, op, permutation=order)]


def _turned_back(shape: Shape, order: Sequence[int]) -> Shape:
    """Returns the shape that a permutation by `order` turns into `shape`."""
    return tuple(shape[order.index(dim)] for dim in range(len(shape)))


def sunk_reshape(op: RowOp) -> list[RowOp] | None:
    """Replaces an elementwise op whose operands are all reshaped alike by a reshape of its result.

    Applies only if another movement follows that the reshape may meet; otherwise the op stays as it is.
    """
    reshaped = _moved(op, "reshape")
    if reshaped is None or any(shape_of(v) != shape_of(op.results[0]) for v in reshaped):
        return None
    shapes = {shape_of(move.operands[0]) for move in reshaped.values()}
    if len(shapes) != 1 or (len(reshaped) == 1 and not _moves_on(op.results[0])):
        return None
    (before,) = shapes
    if any(len(shape_of(v)) > len(before) for v in op.operands if v not in reshaped):
        return None  # an element with more dims would give the result these dims
    inner = make(op.ROW.ttir, _sources(op, reshaped), like(op.results[0], before), op, **op.read())
    inner.location = moved(op.location, "reshape", shape_of(op.results[0]))
    return [inner, make("reshape", inner.results, op.results[0].type, op, shape=shape_of(op.results[0]))]


def _moved(
    op: RowOp, move: str, may_stay: Callable[[SSAValue], bool] = lambda value: prod(shape_of(value)) == 1
) -> dict[SSAValue, RowOp] | None:
    """Returns the operands that `move` makes for this op alone; None if there are none or another one may not stay."""
    if not broadcasts(op):
        return None
    moved: dict[SSAValue, RowOp] = {}
    for value in dict.fromkeys(op.operands):
        source = maker(value, move)
        if source is not None and all(use.operation is op for use in value.uses) and not prepares_weights(source):
            moved[value] = source
        elif not may_stay(value):
            return None
    return moved or None


def _sources(op: RowOp, moved: Mapping[SSAValue, RowOp]) -> list[SSAValue]:
    """Returns the operands of an op as they were before the movements in `moved`."""
    for value in moved:
        move_name_to_source(value)
    return [moved[v].operands[0] if v in moved else v for v in op.operands]


def _moves_on(value: SSAValue) -> bool:
    """Whether a reshape is the only reader of a value, perhaps after further elementwise ops that only it leads to."""
    while read_once(value):
        (use,) = value.uses
        reader = use.operation
        if not isinstance(reader, RowOp):
            return False
        if reader.ROW.ttir == "reshape":
            return True
        if not broadcasts(reader) or any(prod(shape_of(v)) != 1 for v in reader.operands if v is not value):
            return False
        value = reader.results[0]
    return False


def product_of_reshaped(op: RowOp) -> list[RowOp] | None:
    """Replaces a reshape that unfolds a product's leading dims by the product of the unfolded operands.

    Applies if the operands of the product had just had these dims folded.
    """
    if op.ROW.ttir != "reshape":
        return None
    product = maker(op.operands[0], "matmul")
    if product is None or not read_once(op.operands[0]):
        return None
    left, right = (maker(v, "reshape") for v in product.operands)
    out, attrs = shape_of(op.results[0]), product.read()
    if left is None or attrs["transpose_a"] or len(shape_of(left.operands[0])) < 2:
        return None  # a vector that became a row: `matmul` takes no vectors
    a, b = shape_of(left.operands[0]), shape_of(product.operands[1])
    if len(b) == 2:  # the rows of all batches were one dim
        fits = out == (*a[:-1], shape_of(op.operands[0])[-1]) and a[-1] == shape_of(product.operands[0])[-1]
        operands = [left.operands[0], product.operands[1]]
        fits = fits and len(shape_of(product.operands[0])) == 2 and prod(a[:-2]) == 1
    else:
        b = shape_of(right.operands[0]) if right is not None else ()
        fits = _folded(a, shape_of(product.operands[0])) and _folded(b, shape_of(product.operands[1]))
        fits = fits and a[:-2] == b[:-2] and out == (*a[:-2], *shape_of(op.operands[0])[-2:])
        operands = [left.operands[0], right.operands[0]] if right is not None else []
    if not fits:
        return None
    new_product = make("matmul", operands, like(op.results[0], out), product, **attrs)
    new_product.location = reshaped(product, op)
    return [new_product]


def _folded(before: Shape, after: Shape) -> bool:
    """Whether `after` is `before` with all dims but the last two made one."""
    return len(before) > 3 and after == (prod(before[:-2]), *before[-2:])


__all__ = ["TtirEraseInverseOps"]
