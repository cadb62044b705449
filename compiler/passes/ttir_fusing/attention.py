"""Fuses softmax(Q K^T scale + mask) V into `scaled_dot_product_attention`, or into its `_decode` form.

The three ops may have any moves between them, since exporters write heads, and heads that share keys, in many orders:
`jax.nn.dot_product_attention` has five dims and multiplies the values from the left. So the rule follows the axes of
the scores (`View`) from the first product to the second. A query of one position is that of a model which generates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Attribute, SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import element, full, is_float, like, make, maker, readers, shape_of, splat
from opscope.compiler.passes.ttir_fusing.matching import fuses, orders

Axis = tuple[int, int]
View = list[tuple[Axis, ...]]
"""Where the elements of a product's result are after it was reshaped and permuted: the axes of each dim, from the outer
to the inner; those of size 1 are left out."""


def whole(shape: Sequence[int]) -> View:
    """Returns the view of a tensor that was not moved."""
    view: View = []
    stride = 1
    for size in reversed(shape):
        view.insert(0, ((size, stride),) if size > 1 else ())
        stride *= size
    return view


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """Returns the view after a reshape; None if a dim would have a part of an axis that does not divide it."""
    left = [axis for dim in view for axis in dim]
    result: View = []
    for wanted in shape:
        dim: list[Axis] = []
        while wanted > 1:
            size, stride = left.pop(0)
            if wanted % size == 0:
                dim.append((size, stride))
                wanted //= size
            elif size % wanted == 0:
                inner = size // wanted
                dim.append((wanted, stride * inner))
                left.insert(0, (inner, stride))
                wanted = 1
            else:
                return None
        result.append(tuple(dim))
    return result


def joined(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Returns the same axes with neighbours that are one axis as such."""
    result: list[Axis] = []
    for size, stride in axes:
        if result and result[-1][1] == size * stride:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def split(axes: Iterable[Axis], boundaries: Sequence[int]) -> list[Axis] | None:
    """Returns the same axes, none of which reaches over one of these strides; None if one cannot be divided there."""
    result = list(axes)
    for boundary in boundaries:
        parts: list[Axis] = []
        for size, stride in result:
            if stride < boundary < size * stride:
                if boundary % stride or size % (boundary // stride):
                    return None
                inner = boundary // stride
                parts += [(size // inner, boundary), (inner, stride)]
            else:
                parts.append((size, stride))
        result = parts
    return result


MOVES = ("permute", "reshape", "typecast")
OUT_OF_SIGHT = -1e9
"""A number that hides a score, whether it takes its place or is added to it: the score vanishes in its rounding."""


@dataclass
class _Scores:
    """How the input of a softmax comes from a product."""

    product: RowOp
    scale: float = 1.0
    mask: RowOp | None = None
    """The `add` or `where` that masks."""
    scores: SSAValue | None = None
    """The operand of `mask` that is masked."""
    moves: list[RowOp] = field(default_factory=list)
    """From the product to the softmax."""
    masked_after: int = 0
    """How many of them lie before the mask."""


@fuses("matmul")
def attention(op: RowOp) -> list[RowOp] | None:
    """Matches both products, a scale, and any mask that broadcasts to the scores."""
    for side in (0, 1):
        moves, value = _through_moves(op.operands[side])
        guard = _guard(value) if side == 0 and not moves and value.has_one_use() else None
        value = guard.operands[2] if guard is not None else value
        softmax = maker(value, "softmax")
        reader = guard or (moves[0] if moves else op)
        if softmax is None or not is_float(value) or not _only_read_by(value, {reader}):
            continue
        rank = len(shape_of(value))
        matched = _scores(softmax.operands[0], softmax.read()["dimension"] % rank, softmax)
        if matched is not None:
            fusion = _Fusion(op, side, matched, softmax, moves)
            return fusion.ops() if guard is None else fusion.guarded(guard)
    return None


def _guard(value: SSAValue) -> RowOp | None:
    """The `where` by which ONNX writes zeros in rows of which the mask hides all: it asks a row's question alone."""
    op = maker(value, "where")
    if op is None or splat(op.operands[1]) != 0 or shape_of(op.operands[2]) != shape_of(value):
        return None
    return op if shape_of(_once(op.operands[0]))[-1:] == (1,) else None


def _once(value: SSAValue) -> SSAValue:
    """A value before it was broadcast."""
    spread = maker(value, "broadcast")
    return value if spread is None else spread.operands[0]


def _through_moves(value: SSAValue) -> tuple[list[RowOp], SSAValue]:
    """Returns the moves that lead to a value, which are read by each other alone, and where they begin."""
    moves: list[RowOp] = []
    move = maker(value, *MOVES)
    while move is not None and is_float(move.operands[0]) and value.has_one_use():
        moves.insert(0, move)
        value = move.operands[0]
        move = maker(value, *MOVES)
    return moves, value


def _only_read_by(value: SSAValue, ops: set[RowOp]) -> bool:
    return all(reader in ops or (isinstance(reader, RowOp) and reader.ROW.ttir == "max") for reader in readers(value))


def _scores(value: SSAValue, dim: int | None, reader: RowOp) -> _Scores | None:
    """Follows a value to the product that it comes from; `dim` is that of the softmax until a mask or scale is met."""
    op = maker(value)
    if op is None or not is_float(value) or not _only_read_by(value, {reader}):
        return None
    name = op.ROW.ttir
    if name == "matmul":
        return _Scores(op)
    if name in MOVES and is_float(op.operands[0]):
        matched = _scores(op.operands[0], None, op)
        if matched is not None:
            matched.moves.append(op)
        return matched
    if name == "subtract" and dim is not None:
        # A softmax is the same whatever is taken from all its scores.
        _, most = _through_moves(op.operands[1])
        if shape_of(op.operands[0]) == shape_of(value) and maker(most, "max") is not None:
            shape = shape_of(op.operands[1])
            if len(shape) + dim >= len(shape_of(value)) and shape[dim - len(shape_of(value))] == 1:
                return _scores(op.operands[0], None, op)
        return None
    if name in ("multiply", "div"):
        return _scaled(op)
    return _masked(op, value) if name in ("add", "where") else None


def _scaled(op: RowOp) -> _Scores | None:
    pairs = orders(op) if op.ROW.ttir == "multiply" else [tuple(op.operands)]
    for inner, by in pairs:
        number = splat(by)
        matched = _scores(inner, None, op) if number else None
        if number and matched is not None and shape_of(inner) == shape_of(op.results[0]):
            # A mask that is scaled too is another mask.
            if matched.mask is not None:
                return None
            matched.scale *= number if op.ROW.ttir == "multiply" else 1.0 / number
            return matched
    return None


def _masked(op: RowOp, value: SSAValue) -> _Scores | None:
    candidates = list(op.operands) if op.ROW.ttir == "add" else list(op.operands[1:])
    for scores in candidates:
        if shape_of(scores) != shape_of(value):
            continue
        if op.ROW.ttir == "where":
            hidden = splat(op.operands[2 if scores is op.operands[1] else 1])
            if hidden is None or hidden > OUT_OF_SIGHT:
                continue
        matched = _scores(scores, None, op)
        if matched is not None:
            if matched.mask is not None:
                return None
            matched.mask, matched.scores, matched.masked_after = op, scores, len(matched.moves)
            return matched
    return None


class _Fusion:
    """Builds the fused op from what was matched. Sizes: batch, heads, rows (of the query), columns (of the keys)."""

    def __init__(self, last: RowOp, side: int, matched: _Scores, softmax: RowOp, moves: list[RowOp]) -> None:
        self.last, self.side, self.found, self.softmax, self.moves = last, side, matched, softmax, moves
        shape = shape_of(matched.product.results[0])
        self.lead, self.rows, self.columns = shape[:-2], shape[-2], shape[-1]
        self.batch, self.heads = prod(shape[:-3]), shape[-3] if len(shape) > 2 else 1
        self.shared = 1
        """Rows of the product that are heads which share keys: the inner part of its rows."""
        self.made: list[RowOp] = []

    def ops(self) -> list[RowOp] | None:
        """Returns the ops in place of the last product; None if heads, rows or columns are mixed on the way."""
        matched, product = self.found, self.found.product
        at_softmax = self._moved(whole(shape_of(product.results[0])), matched.moves)
        if at_softmax is None:
            return None
        dim = self.softmax.read()["dimension"] % len(at_softmax)
        if joined(at_softmax[dim]) != joined(whole((self.columns,))[0]):
            return None
        at_last = self._moved(at_softmax, self.moves)
        if at_last is None or not self._fits(at_last):
            return None
        flag = self.last.read()["transpose_a" if self.side else "transpose_b"]
        values, lead = self.last.operands[1 - self.side], shape_of(self.last.results[0])[:-2]
        if any(shape_of(v)[:-2] != self.lead for v in product.operands) or shape_of(values)[:-2] != lead:
            return None
        sources = [
            _unturned(product.operands[1], not product.read()["transpose_b"]),
            _unturned(values, flag != bool(self.side)),
        ]
        query = self._matrix(product.operands[0], product.read()["transpose_a"])
        repeats = {_repeats(v) for v, _ in sources}
        repeated = repeats.pop() if len(repeats) == 1 else 1
        key, value = (self._keys(v, turned, repeated) for v, turned in sources)
        mask = self._mask(self._moved(whole(shape_of(product.results[0])), matched.moves[: matched.masked_after]))
        if mask is None:
            return None
        query = self._folded(query)
        wide = shape_of(value)[-1]
        fused = self._attention(query, key, value, mask, wide)
        # (batch, heads, shared, rows, width) is the order of the last product's rows.
        result = self._reshape(fused, (*lead, self.rows, wide))
        if self.side:
            result = self._turn(result)
        assert result.type == self.last.results[0].type
        return self.made

    def guarded(self, guard: RowOp) -> list[RowOp] | None:
        """The same, with zeros in the rows that a guard of the weights names: a row of zeros gives zeros."""
        if self.last.read()["transpose_a"] or self.ops() is None:
            return None
        result = self.made[-1].results[0]
        self.made.append(full((), element(result), 0.0, self.last))
        self._add("where", [_once(guard.operands[0]), self.made[-1].results[0], result], result.type)
        return self.made

    def _moved(self, view: View, moves: list[RowOp]) -> View | None:
        for move in moves:
            if move.ROW.ttir == "permute":
                view = [view[i] for i in move.read()["permutation"]]
            elif move.ROW.ttir == "reshape":
                changed = reshaped(view, shape_of(move.results[0]))
                if changed is None:
                    return None
                view = changed
        return view

    def _fits(self, view: View) -> bool:
        """Whether the last product sums over the columns, for the same heads; sets `shared` where it turns rows."""
        turned = self.last.read()["transpose_b" if self.side else "transpose_a"]
        # The weights are (rows, columns) on the left and (columns, rows) on the right.
        rows, columns = (view[-2], view[-1]) if turned == bool(self.side) else (view[-1], view[-2])
        size = self.rows * self.columns
        lead = joined(axis for dim in view[:-2] for axis in dim)
        if joined(columns) != joined(whole((self.columns,))[0]):
            return False
        if lead != joined(axis for dim in whole((*self.lead, size))[:-1] for axis in dim):
            return False
        order = joined(rows)
        if len(order) == 2 and order[0][1] == self.columns and order[1][1] == self.columns * order[0][0]:
            self.shared = order[0][0]
            return True
        return order == (((self.rows, self.columns),) if self.rows > 1 else ())

    def _keys(self, value: SSAValue, turned: bool, repeated: int) -> SSAValue:
        """Returns keys or values as (batch, heads, columns, width), each head once."""
        heads = self.heads // repeated
        if repeated > 1:
            move = maker(value, "reshape")
            source = maker(move.operands[0], "broadcast") if move is not None else None
            assert source is not None
            value = source.operands[0]
            value = self._reshape(value, (self.batch, heads, *shape_of(value)[-2:]))
        value = self._matrix(value, turned)
        return self._reshape(value, (self.batch, heads, *shape_of(value)[-2:]))

    def _matrix(self, value: SSAValue, turned: bool) -> SSAValue:
        return self._turn(value) if turned else value

    def _turn(self, value: SSAValue) -> SSAValue:
        rank = len(shape_of(value))
        order = (*range(rank - 2), rank - 1, rank - 2)
        return self._permute(value, order)

    def _permute(self, value: SSAValue, order: tuple[int, ...]) -> SSAValue:
        shape = shape_of(value)
        if order == tuple(range(len(shape))):
            return value
        return self._add("permute", [value], like(value, [shape[i] for i in order]), permutation=order)

    def _reshape(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        made = maker(value, "reshape")
        if made is not None and made in self.made:
            value = made.operands[0]
        return value if shape_of(value) == shape else self._add("reshape", [value], like(value, shape), shape=shape)

    def _add(self, name: str, operands: list[SSAValue], kind: Attribute, **attrs: object) -> SSAValue:
        self.made.append(make(name, operands, kind, self.last, **attrs))
        return self.made[-1].results[0]

    def _folded(self, query: SSAValue) -> SSAValue:
        """Returns the query as (batch, heads, rows, width), with the rows that share keys as heads of their own."""
        rows, wide = self.rows // self.shared, shape_of(query)[-1]
        if self.shared > 1:
            query = self._reshape(query, (self.batch, self.heads, rows, self.shared, wide))
            query = self._permute(query, (0, 1, 3, 2, 4))
        return self._reshape(query, (self.batch, self.heads * self.shared, rows, wide))

    def _mask(self, view: View | None) -> list[SSAValue] | None:
        """Returns the mask as (batch, heads, rows, columns), each of which may be 1; none without a mask.

        None if the mask lies across these dims.
        """
        op = self.found.mask
        if op is None:
            return []
        if view is None:
            return None
        where = op.ROW.ttir == "where"
        mask = op.operands[0] if where or op.operands[0] is not self.found.scores else op.operands[1]
        arranged = self._arranged(mask, view)
        if arranged is None or not where:
            return None if arranged is None else [arranged]
        kind = element(op.results[0])
        first = op.operands[1] is self.found.scores
        hidden = splat(op.operands[2 if first else 1])
        assert hidden is not None
        self.made += [full((), kind, 0.0, self.last), full((), kind, hidden, self.last)]
        seen, unseen = (made.results[0] for made in self.made[-2:])
        operands = [arranged, seen, unseen] if first else [arranged, unseen, seen]
        return [self._add("where", operands, like(op.results[0], shape_of(arranged)))]

    def _arranged(self, mask: SSAValue, view: View) -> SSAValue | None:
        shape = shape_of(mask)
        shape = (1,) * (len(view) - len(shape)) + shape
        block = self.rows * self.columns
        # Strides where the parts of the scores begin: columns, heads that share keys, rows, heads, batch.
        bounds = [self.columns, self.columns * self.shared, block, block * self.heads]
        sizes: list[int] = []
        axes: list[tuple[int, int]] = []
        for size, dim in zip(shape, view, strict=True):
            parts = split(dim, bounds)
            if parts is None or size not in (1, prod(n for n, _ in dim)):
                return None
            axes += parts
            sizes += [n if size > 1 else 1 for n, _ in parts]
        mask = self._reshape(mask, tuple(sizes))

        def part(axis: tuple[int, int]) -> int:
            # Batch, heads, shared heads, rows, columns.
            return (4, 2, 3, 1, 0)[sum(axis[1] >= bound for bound in bounds)]

        order = sorted(range(len(axes)), key=lambda i: (part(axes[i]), -axes[i][1]))
        mask = self._permute(mask, tuple(order))
        groups: list[list[int]] = [[], [], [], []]
        for i in order:
            groups[(0, 1, 1, 2, 3)[part(axes[i])]].append(i)
        spread = [axes[i][0] if any(sizes[j] > 1 for j in group) else 1 for group in groups for i in group]
        if tuple(spread) != shape_of(mask):
            factors = tuple(n // m for n, m in zip(spread, shape_of(mask), strict=True))
            mask = self._add("broadcast", [mask], like(mask, spread), broadcast_dimensions=factors)
        final = tuple(prod(axes[i][0] if any(sizes[j] > 1 for j in group) else 1 for i in group) for group in groups)
        return self._reshape(mask, final)

    def _attention(self, query: SSAValue, key: SSAValue, value: SSAValue, mask: list[SSAValue], wide: int) -> SSAValue:
        batch, heads, rows, _ = shape_of(query)
        if rows == 1 and (not mask or _of_decode(shape_of(mask[0]))):
            return self._decode(query, key, value, mask, wide)
        result = like(self.last.results[0], (batch, heads, rows, wide))
        return self._add(
            "scaled_dot_product_attention", [query, key, value, *mask], result, is_causal=False, scale=self.found.scale
        )

    def _decode(self, query: SSAValue, key: SSAValue, value: SSAValue, mask: list[SSAValue], wide: int) -> SSAValue:
        """One position of each user: (1, batch, heads, width), and a mask of (batch, 1, heads, columns)."""
        batch, heads, _, size = shape_of(query)
        query = self._reshape(query, (1, batch, heads, size))
        if mask:
            mask = [self._reshape(mask[0], tuple(shape_of(mask[0])[i] for i in (0, 2, 1, 3)))]
        return self._add(
            "scaled_dot_product_attention_decode",
            [query, key, value, *mask],
            like(self.last.results[0], (1, batch, heads, wide)),
            is_causal=False,
            scale=self.found.scale,
            operandSegmentSizes=(1, 1, 1, 0, len(mask), 0),
        )


def _repeats(value: SSAValue) -> int:
    """How often each head of (batch, heads, rows, columns) stands beside itself; 1 if it is no such repetition."""
    move = maker(value, "reshape")
    spread = maker(move.operands[0], "broadcast") if move is not None else None
    if spread is None:
        return 1
    once, often = shape_of(spread.operands[0]), shape_of(spread.results[0])
    if len(once) != 5 or once[2] != 1 or (*often[:2], *often[3:]) != (*once[:2], *once[3:]):
        return 1
    # A reshape that leaves the last two dims only joins the others.
    return often[2] if shape_of(value)[-2:] == often[-2:] else 1


def _unturned(value: SSAValue, turned: bool) -> tuple[SSAValue, bool]:
    """Returns a matrix before it was turned, and whether it then is to be."""
    move = maker(value, "permute")
    rank = len(shape_of(value))
    if move is not None and tuple(move.read()["permutation"]) == (*range(rank - 2), rank - 1, rank - 2):
        return move.operands[0], not turned
    return value, turned


def _of_decode(mask: tuple[int, ...]) -> bool:
    return len(mask) == 4 and mask[2] == 1
