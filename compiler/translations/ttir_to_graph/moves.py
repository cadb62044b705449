"""Moves elements where no TM does: a sparse matmul picks the rows of the result, transposes turn rows and columns.

A move is given as the index of the element that each element of the result is, counted over z, rows and columns of the
source; -1 is zero. One picker moves whole rows, also between matrices, which lie below each other meanwhile; columns
move as rows of the transposed matrices. What moves elements between rows and columns takes two or three steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, prod

import numpy as np

from opscope.compiler.buda.graph import NodeKind, TensorShape, Tm
from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import StageFailure
from opscope.compiler.target.formats import TILE
from opscope.compiler.target.runs import runs_of
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout
from opscope.compiler.translations.ttir_to_graph.names import GATHER_FIDELITY, PICKER_FORMAT
from opscope.compiler.translations.ttir_to_graph.state import State

Sizes = tuple[int, int, int]
"""Elements along z, rows and columns."""


def whole(size: int) -> int:
    """Returns the elements of the tiles that hold `size` elements."""
    return -(-size // TILE) * TILE


def moved(lowering: State, operand: Operand, have: Sizes, index: np.ndarray) -> Operand:
    """Returns the operand with its elements moved to `index`, of shape (z, rows, columns), in one step.

    Raises StageFailure if one picker and transposes before and after it cannot.
    """
    result = _in_one_step(lowering, operand, have, index)
    if result is None:
        raise StageFailure(
            "ttir-to-graph", "layout", f"no TM takes {have} to {index.shape} (z, rows, columns)", kind="notimpl"
        )
    return result


def movable(have: Sizes, index: np.ndarray) -> bool:
    """Whether one picker and transposes before and after it move elements to `index`."""
    return next(_ways(have, index), None) is not None


def _in_one_step(lowering: State, operand: Operand, have: Sizes, index: np.ndarray) -> Operand | None:
    for before, after, sizes, rows in _ways(have, index):
        source = _with(operand, Tm("transpose")) if before else operand
        result = _picked(lowering, source, sizes, rows)
        return _with(result, Tm("transpose")) if after else result
    return None


def _ways(have: Sizes, index: np.ndarray) -> Iterator[tuple[bool, bool, Sizes, np.ndarray]]:
    """Yields whether to transpose before and after a picker, the sizes that it reads, and its rows."""
    turned, back = (have[0], have[2], have[1]), np.swapaxes(index, 1, 2)
    for before, after in ((False, False), (True, False), (True, True), (False, True)):
        sizes, wanted = turned if before else have, back if after else index
        if wanted.shape[2] == sizes[2]:
            rows = _rows(_turned(wanted, have) if before else wanted, sizes)
            if rows is not None:
                yield before, after, sizes, rows


def _with(operand: Operand, *tms: Tm) -> Operand:
    return Operand(operand.producer, (*operand.tms, *tms))


def _turned(index: np.ndarray, have: Sizes) -> np.ndarray:
    """Returns the index counted over the transposed matrices."""
    _, r, c = have
    return np.where(index < 0, -1, index // (r * c) * (r * c) + index % c * r + index // c % r)


def _rows(index: np.ndarray, have: Sizes) -> np.ndarray | None:
    """Returns the source's row, counted over all matrices, that each row of the result is, -1 for zeros; else None."""
    columns = have[2]
    if index.shape[2] != columns:
        return None
    first = index[:, :, :1]
    expected = np.where(first < 0, -1, first + np.arange(columns))
    if not np.array_equal(index, expected) or np.any((first >= 0) & (first % columns != 0)):
        return None
    return np.where(first[:, :, 0] < 0, -1, first[:, :, 0] // columns)


def _picked(lowering: State, operand: Operand, have: Sizes, rows: np.ndarray) -> Operand:
    """Returns the operand with the rows that `rows` (z, rows) names, counted over all its matrices; -1 is zeros."""
    z, r, columns = have
    if rows.shape == (z, r) and np.array_equal(rows.ravel(), np.arange(z * r)):
        return operand
    below = whole(r) if z > 1 else r
    stacked = np.where(rows < 0, -1, rows // r * below + rows % r)
    count, height = rows.shape
    if count > 1:
        stacked = np.pad(stacked, [(0, 0), (0, whole(height) - height)], constant_values=-1)
    if z > 1:
        operand = _with(operand, Tm("vstack", z))
    if not np.array_equal(stacked.ravel(), np.arange(z * below)):
        operand = row_product(lowering, operand, z * below, stacked.ravel(), columns)
    return _with(operand, Tm("vslice", count)) if count > 1 else operand


def row_product(
    lowering: State, operand: Operand, source: int, rows: np.ndarray, columns: int, taps: int = 1
) -> Operand:
    """Adds a sparse matmul that picks `rows` (-1: zeros) of an operand of `source` rows."""
    pattern = SparsePattern.of_runs(runs_of(rows), source, taps)
    shape = TensorShape(1, 1, pattern.rows, pattern.cols)
    picker = lowering.builder.source(lowering.fresh("picker"), NodeKind.CONSTANT, shape, PICKER_FORMAT)
    options = {"math_fidelity": GATHER_FIDELITY, "sparse": pattern}
    return lowering.node("sparse_matmul", [picker, operand], (1, len(rows), columns), **options)


@dataclass(frozen=True)
class _Axes:
    """Where the axes of a tensor lie: numbers of axes in z, rows and columns."""

    z: tuple[int, ...]
    r: tuple[int, ...]
    c: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.z, *self.r, *self.c)


def permuted_by_steps(lowering: State, operand: Operand, have: Layout, order: Sequence[int], want: Layout) -> Operand:
    """Returns the operand with its dims in the order `order`, grouped as in `want`, whose dims they are."""
    groups = {"z": [], "r": [], "c": []}
    for place, axis in enumerate(order):
        if have.dims[axis] > 1:
            groups[want.group(place)].append(axis)
    axes = [i for i, n in enumerate(have.dims) if n > 1]
    start = _Axes(*(tuple(i for i in axes if have.group(i) == g) for g in "zrc"))
    end = _Axes(*(tuple(groups[g]) for g in "zrc"))
    return _steps(lowering, operand, have.dims, start, end)


def _steps(lowering: State, operand: Operand, dims: Dims, start: _Axes, end: _Axes) -> Operand:
    if (result := _step(lowering, operand, dims, start, end)) is not None:
        return result
    # Columns of whole tiles are cut off, or put side by side, by TMs.
    more = len(end.c) - len(start.c)
    if more > 0 and end.c[more:] == start.c and prod(dims[a] for a in start.c) % TILE == 0:
        apart = _Axes((*end.z, *end.c[:more]), end.r, start.c)
        if (result := _step(lowering, operand, dims, start, apart)) is not None:
            return _with(result, Tm("hstack", prod(dims[a] for a in end.c[:more])))
    if more < 0 and start.c[-more:] == end.c and prod(dims[a] for a in end.c) % TILE == 0:
        apart = _Axes((*start.z, *start.c[:-more]), start.r, end.c)
        cut = _with(operand, Tm("hslice", prod(dims[a] for a in start.c[:-more])))
        if (result := _step(lowering, cut, dims, apart, end)) is not None:
            return result
    if not set(end.c) & set(start.r):
        # Columns change places with z, then z with rows.
        middle = _Axes(tuple(a for a in start.all if a not in end.c and a not in start.r), start.r, end.c)
        path = [middle, end]
    else:
        # Some rows become columns: another axis stands in their place until they lie in rows by themselves.
        free = [a for a in (*start.c, *start.z) if a not in end.c]
        aside = (max(free, key=lambda a: dims[a]),) if free else ()
        first = _Axes(tuple(a for a in start.all if a not in aside and a not in start.r), start.r, aside)
        second = _Axes(tuple(a for a in start.all if a not in aside and a not in end.c), end.c, aside)
        path = [first, second, end]
    at = start
    for target in path:
        result = _step(lowering, operand, dims, at, target)
        assert result is not None, f"{at} to {target} of {dims} is one step"
        operand, at = result, target
    return operand


def _step(lowering: State, operand: Operand, dims: Dims, at: _Axes, to: _Axes) -> Operand | None:
    index = np.arange(prod(dims[a] for a in at.all)).reshape([dims[a] for a in at.all])
    index = index.transpose([at.all.index(a) for a in to.all]).reshape(_sizes(dims, to))
    return _in_one_step(lowering, operand, _sizes(dims, at), index)


def _sizes(dims: Dims, axes: _Axes) -> Sizes:
    z, r, c = (prod(dims[a] for a in group) for group in (axes.z, axes.r, axes.c))
    return z, r, c


def regrouped_by_steps(lowering: State, operand: Operand, have: Sizes, want: Sizes) -> Operand:
    """Returns the operand with the same elements in the same order as other z, rows and columns."""
    common = gcd(have[2], want[2])
    between = (1, prod(have) // common, common)
    path = [have, want] if have[2] == want[2] else [have, between, want]
    for start, end in pairwise(path):
        if start[2] == end[2]:
            operand = moved(lowering, operand, start, np.arange(prod(end)).reshape(end))
        else:
            operand = _regrouped(lowering, operand, start, end)
    return operand


def _regrouped(lowering: State, operand: Operand, have: Sizes, want: Sizes) -> Operand:
    """Moves between two sizes of which one's columns divide the other's, and one has all else in rows."""
    fine, coarse = (have, want) if have[2] < want[2] else (want, have)
    # The axes of the one with more columns, whose columns are cut.
    dims = (coarse[0], coarse[1], coarse[2] // fine[2], fine[2])
    joined, cut = Layout(dims, 1, 2), Layout(dims, 0, 3)
    start, end = (joined, cut) if coarse == have else (cut, joined)
    return permuted_by_steps(lowering, operand, start, range(4), end)


__all__ = ["movable", "moved", "permuted_by_steps", "regrouped_by_steps", "row_product", "whole"]
