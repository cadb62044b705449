"""Which elements of its operands an element of a result was made of, the largest terms first.

One function per kind of op in `KINDS`; ops that are not in it are asked where their elements come from by running them
on numbered operands (moved data), or have the operands at the element's own index (elementwise).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscope.base.op_families import DATA_MOVEMENT, op_family
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.record.explanation import OperandElement, Term
from opscope.harness.record.signature import shorten
from opscope.harness.verdict.operands import NotEvaluatedError, Operands

SHOWN = 4
"""Largest terms that are kept of a sum."""
MOST_TERMS = 1 << 16
"""Terms of one element that are looked at."""
DIGIT = 256
"""Elements are numbered in digits of this base, which every float of 8 bits and more holds exactly (bfloat16)."""
Index = tuple[int, ...]


def number_text(value: Any) -> str:
    """A value of any element type as text."""
    if isinstance(value, np.ndarray):
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (complex, np.complexfloating)):
        return f"{value:.7g}"
    try:
        return str(int(value)) if isinstance(value, (int, np.integer)) else f"{float(value):.7g}"
    except (TypeError, ValueError):
        return str(value)


@dataclass
class OperandElements:
    """The operands of one op and what its attributes say of where its results come from."""

    op_name: str
    params: dict[str, str]
    operands: Operands
    _numbers: list[np.ndarray] | None = field(default=None, init=False, repr=False)

    def of(self, index: Index, result: int) -> tuple[tuple[Term, ...], str]:
        """The largest terms of one element, and a note on how many there are; neither if they are not known."""
        kind = op_family(self.op_name)
        inputs = self.operands.inputs
        try:
            if self.op_name in KINDS:
                return _largest(KINDS[self.op_name](self, index), inputs)
            if kind in DATA_MOVEMENT:
                return self._moved(index, result)
        except (NotEvaluatedError, KeyError, ValueError, IndexError) as error:
            return (), f"its operands are not known: {shorten(str(error), 100)}"
        places = [_at(x, index) for x in inputs]
        sources = [
            (_element(number, place, x),)
            for number, (place, x) in enumerate(zip(places, inputs, strict=True))
            if place is not None
        ]
        return tuple(Term(elements=one, value=one[0].value) for one in sources), ""

    def integers(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """The integers of an attribute: of an array, or of a dense tensor row by row."""
        from opscope.harness.prepare.mlir import attribute_text

        text = self.params.get(name)
        return list(default) if text is None else list(attribute_text.integers(text))

    def _moved(self, index: Index, result: int) -> tuple[tuple[Term, ...], str]:
        """Of moved data: the one element that it was, found by moving numbered elements in its place."""
        if self._numbers is None:
            self._numbers = self._where_from()
        number = int(self._numbers[result][index]) if result < len(self._numbers) else -1
        for operand in self._data():
            x = self.operands.inputs[operand]
            if 1 <= number <= x.size:
                place = tuple(int(i) for i in np.unravel_index(number - 1, x.shape))
                one = _element(operand, place, x)
                return (Term(elements=(one,), value=one.value),), ""
            number -= x.size
        return (), "no operand's element: a constant, or padding"

    def _data(self) -> list[int]:
        """The operands that are moved; others are indices or predicates."""
        inputs = self.operands.inputs
        numbers = [number for number, x in enumerate(inputs) if x.dtype == inputs[FIRST.get(self.op_name, 0)].dtype]
        numbers = [number for number in numbers if number >= FIRST.get(self.op_name, 0)]
        return numbers if self.op_name in SEVERAL else numbers[:1]

    def _where_from(self) -> list[np.ndarray]:
        """For each result the number of the element that stands there, counted from 1 over all moved operands."""
        if self.op_name in ("stablehlo.sort", "chlo.top_k"):
            raise NotEvaluatedError("the order depends on the values")
        inputs, data = list(self.operands.inputs), self._data()
        total = sum(inputs[number].size for number in data)
        first = inputs[data[0]].dtype
        if not (is_float(inputs[data[0]]) or first.itemsize > 1):
            raise NotEvaluatedError(f"elements of {first} cannot be numbered")
        places: list[np.ndarray] = []
        for digit in range(max(1, math.ceil(math.log(total + 1, DIGIT)))):
            numbered, start = list(inputs), 1
            for number in data:
                x = inputs[number]
                digits = (np.arange(start, start + x.size) // DIGIT**digit) % DIGIT
                numbered[number], start = digits.reshape(x.shape).astype(x.dtype), start + x.size
            moved = [np.abs(part).astype(np.int64) * DIGIT**digit for part in self.operands.run(numbered)]
            places = [a + b for a, b in zip(places, moved, strict=True)] if places else moved
        return places


FIRST = {"stablehlo.select": 1}
"""Op -> its first operand that is moved, if it is not operand 0."""
SEVERAL = frozenset(
    f"stablehlo.{name}" for name in ("concatenate", "pad", "select", "dynamic_update_slice", "dynamic_pad")
)
"""Ops that move elements of several operands."""

Terms = Iterable[tuple[tuple[int, Index], ...]]
"""Terms as (operand, index) pairs that are multiplied."""


def _element(operand: int, index: Index, x: np.ndarray) -> OperandElement:
    return OperandElement(operand=operand, index=index, value=number_text(x[index]))


def _at(x: np.ndarray, index: Index) -> Index | None:
    """The place in an operand of an elementwise op that an index stands for."""
    if x.ndim == 0:
        return ()
    return index if x.ndim == len(index) and all(i < n for i, n in zip(index, x.shape, strict=True)) else None


def _largest(terms: Terms, inputs: Sequence[np.ndarray]) -> tuple[tuple[Term, ...], str]:
    """The largest terms, and how many there are."""
    entries: list[tuple[float, int, Any, tuple[tuple[int, Index], ...]]] = []
    for number, term in enumerate(itertools.islice(terms, MOST_TERMS)):
        value: Any = 1.0
        for operand, index in term:
            x = inputs[operand][index]
            value = value * (complex(x) if inputs[operand].dtype.kind == "c" else float(x))
        size = abs(value)
        entries.append((-size if not math.isnan(size) else -math.inf, number, value, term))
    chosen = sorted(entries, key=lambda entry: entry[:2])[:SHOWN]
    shown = tuple(
        Term(
            elements=tuple(_element(operand, index, inputs[operand]) for operand, index in term),
            value=number_text(value),
        )
        for _, _, value, term in chosen
    )
    first = "the first " if len(entries) == MOST_TERMS else ""
    return shown, f"the largest {len(shown)} of {first}{len(entries):,} terms" if len(entries) > len(shown) else ""


def _product(op: OperandElements, index: Index) -> Terms:
    """Of dot_general: row and column, by the dimensions in its attribute."""
    left, right = op.operands.inputs[:2]
    text = op.params.get("dot_dimension_numbers", "")

    def dims(name: str) -> list[int]:
        match = re.search(rf"{name} = \[([\d, ]*)\]", text)
        return [int(n) for n in re.findall(r"\d+", match[1])] if match else []

    batch = dims("lhs_batching_dimensions"), dims("rhs_batching_dimensions")
    summed = dims("lhs_contracting_dimensions"), dims("rhs_contracting_dimensions")
    if not text:
        summed = [left.ndim - 1], [0]
    free = [[d for d in range(x.ndim) if d not in batch[n] and d not in summed[n]] for n, x in enumerate((left, right))]
    base: list[dict[int, int]] = [{}, {}]
    for position, value in enumerate(index):
        if position < len(batch[0]):
            base[0][batch[0][position]] = base[1][batch[1][position]] = value
        elif position < len(batch[0]) + len(free[0]):
            base[0][free[0][position - len(batch[0])]] = value
        else:
            base[1][free[1][position - len(batch[0]) - len(free[0])]] = value
    for inner in itertools.product(*(range(left.shape[d]) for d in summed[0])):
        places = [dict(base[n]) | dict(zip(summed[n], inner, strict=True)) for n in (0, 1)]
        yield tuple((n, tuple(places[n][d] for d in range(x.ndim))) for n, x in enumerate((left, right)))


def _reduced(op: OperandElements, index: Index) -> Terms:
    """Of reduce: all elements along the dimensions that go away."""
    x = op.operands.inputs[0]
    gone = op.integers("dimensions")
    rest = iter(index)
    fixed = [None if d in gone else next(rest) for d in range(x.ndim)]
    for inner in itertools.product(*(range(x.shape[d]) if at is None else (at,) for d, at in enumerate(fixed))):
        yield ((0, tuple(inner)),)


def _windows(
    sizes: Sequence[int],
    at: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base: Sequence[int],
    dilation: Sequence[int],
) -> Iterator[tuple[Index, Index]]:
    """Each place of a window that lies on an element of its operand: the place in the window, and the element's."""
    for tap in itertools.product(*map(range, sizes)):
        place = []
        for d, t in enumerate(tap):
            dilated = at[d] * strides[d] - padding[d][0] + t * dilation[d]
            if dilated < 0 or dilated % base[d] or dilated // base[d] >= extents[d]:
                break
            place.append(dilated // base[d])
        else:
            yield tuple(tap), tuple(place)


def _pooled(op: OperandElements, index: Index) -> Terms:
    """Of reduce_window: the elements in its window."""
    x = op.operands.inputs[0]
    ones, flat = [1] * x.ndim, op.integers("padding", [0] * (2 * x.ndim))
    padding = list(zip(flat[::2], flat[1::2], strict=True))
    steps = [op.integers(name, ones) for name in ("window_strides", "base_dilations", "window_dilations")]
    sizes = op.integers("window_dimensions")
    for _, place in _windows(sizes, index, x.shape, steps[0], padding, steps[1], steps[2]):
        yield ((0, place),)


def _convolved(op: OperandElements, index: Index) -> Terms:
    """Of convolution: each tap of the kernel with each input channel of the group."""
    left, right = op.operands.inputs[:2]
    match = re.search(r"\[([\w, ]+)\]x\[([\w, ]+)\]->\[([\w, ]+)\]", op.params["dimension_numbers"])
    if match is None:
        raise ValueError(f"dimension_numbers {op.params['dimension_numbers']}")
    names = [part.split(", ") for part in match.groups()]
    space = len(names[0]) - 2
    at = [index[names[2].index(str(d))] for d in range(space)]
    entry, feature = index[names[2].index("b")], index[names[2].index("f")]
    groups, batches = (op.integers(f"{name}_group_count", [1])[0] for name in ("feature", "batch"))
    ones, flat = [1] * space, op.integers("padding", [0] * (2 * space))
    padding = list(zip(flat[::2], flat[1::2], strict=True))
    channels, features = right.shape[names[1].index("i")], right.shape[names[1].index("o")]
    start = feature // (features // groups) * channels if groups > 1 else 0
    if batches > 1:
        entry += feature // (features // batches) * (left.shape[names[0].index("b")] // batches)
    sizes = [right.shape[names[1].index(str(d))] for d in range(space)]
    extents = [left.shape[names[0].index(str(d))] for d in range(space)]
    for tap, place in _windows(
        sizes,
        at,
        extents,
        op.integers("window_strides", ones),
        padding,
        op.integers("lhs_dilation", ones),
        op.integers("rhs_dilation", ones),
    ):
        for channel in range(channels):
            x = {"b": entry, "f": start + channel} | {str(d): p for d, p in enumerate(place)}
            k = {"i": channel, "o": feature} | {str(d): t for d, t in enumerate(tap)}
            yield (0, tuple(x[name] for name in names[0])), (1, tuple(k[name] for name in names[1]))


KINDS: dict[str, Callable[[OperandElements, Index], Terms]] = {
    "stablehlo.dot_general": _product,
    "stablehlo.dot": _product,
    "stablehlo.reduce": _reduced,
    "stablehlo.reduce_window": _pooled,
    "stablehlo.convolution": _convolved,
}
"""Op -> the function that yields its terms for an index."""
