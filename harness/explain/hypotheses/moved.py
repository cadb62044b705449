"""Hypotheses about values that are right and stand in the wrong place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from opscope.harness.explain.heat_cells import FACE, TILE
from opscope.harness.explain.hypotheses.evidence import At, Evidence, of_array

LEAST = 4
"""Wrong elements from which a match elsewhere is no chance."""
MOST_RANK = 5
MOST_ENTRIES = 1024
CORRELATED = 1 << 20
"""Elements that the search for a shift looks at."""


def transposed(evidence: Evidence) -> str | None:
    """Dims were exchanged, of the whole result or, where the target has tiles, inside each tile or face."""
    if evidence.wrong_count < LEAST or len(evidence.shape) < 2:
        return None
    for name, swapped, scale in _transpositions(evidence):
        if evidence.explains(of_array(swapped), None if scale is None else _limit_of(evidence, scale)):
            return f"{name} is transposed"
    return None


def _transpositions(evidence: Evidence) -> Iterator[tuple[str, np.ndarray, np.ndarray | None]]:
    golden, scale = evidence.golden, evidence.errors.scale
    rank, rows, columns = golden.ndim, evidence.shape[-2], evidence.shape[-1]

    def both(turn) -> tuple[np.ndarray, np.ndarray | None]:
        return turn(golden), None if scale is None else turn(scale)

    orders = list(itertools.permutations(range(rank)))[1:] if rank <= MOST_RANK else []
    # The last two dims first: they are the likeliest.
    orders.sort(key=lambda order: (order[:-2] != tuple(range(rank - 2)), sum(a != b for a, b in enumerate(order))))
    for order in orders:
        if all(evidence.shape[axis] == 1 or axis == place for place, axis in enumerate(order)):
            continue
        words = "the matrix of its last two dims" if order[:-2] == tuple(range(rank - 2)) else f"its dims, to {order},"
        yield words, *both(lambda x, order=order: x.transpose(order).reshape(evidence.shape))
        # The transposed values read row by row in the shape of before, and its inverse.
        back = tuple(np.argsort(order))
        permuted = tuple(evidence.shape[axis] for axis in order)
        yield words, *both(lambda x, to=permuted, back=back: x.reshape(to).transpose(back).reshape(evidence.shape))
    for name, side in (("each tile", TILE), ("each face", FACE)) if evidence.tiled else ():
        if rows % side == 0 and columns % side == 0:
            cut = (-1, rows // side, side, columns // side, side)
            yield name, *both(lambda x, cut=cut: x.reshape(cut).transpose(0, 1, 4, 3, 2).reshape(evidence.shape))


def _limit_of(evidence: Evidence, scale: np.ndarray):
    """How far moved values may be off: by their own scale."""
    return lambda at: (evidence.errors.limit or 0.0) * scale[at].astype(np.float64)


def shifted(evidence: Evidence) -> str | None:
    """Every value stands some places further along one dim."""
    if evidence.wrong_count < LEAST or not evidence.finite:
        return None
    for axis, extent in enumerate(evidence.shape):
        if extent < 3:
            continue
        step = _likeliest_shift(evidence, axis)
        if not step:
            continue
        moved, scale = np.roll(evidence.golden, step, axis), evidence.errors.scale
        allow = None if scale is None else _limit_of(evidence, np.roll(scale, step, axis))
        round_trip = evidence.explains(of_array(moved), allow)

        def inside(at: At, axis: int = axis, step: int = step, extent: int = extent) -> np.ndarray:
            return at[axis] >= step if step > 0 else at[axis] < extent + step

        if round_trip or evidence.explains(of_array(moved), allow, inside):
            end = "; what leaves at one end enters at the other" if round_trip else ""
            return (
                f"every value is {abs(step)} place{'s' if abs(step) > 1 else ''} too "
                f"{'far' if step > 0 else 'near'} along dim {axis}{end}"
            )
    return None


def _likeliest_shift(evidence: Evidence, axis: int) -> int:
    """By how many places the golden fits the result best along one dim, by their correlation."""
    extent = evidence.shape[axis]
    lines = max(1, CORRELATED // extent)
    with np.errstate(all="ignore"):
        right, device = (_lines(array, axis)[:lines] for array in (evidence.golden, evidence.got))
    spectrum = np.conj(np.fft.rfft(right)) * np.fft.rfft(device)
    step = int(np.argmax(np.fft.irfft(spectrum.sum(axis=0), extent)))
    return step - extent if step > extent // 2 else step


def _lines(array: np.ndarray, axis: int) -> np.ndarray:
    """The lines along one dim around their means, float64; 0 for what is not finite."""
    lines = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    finite = np.nan_to_num(lines.astype(np.float64), posinf=0.0, neginf=0.0)
    return finite - finite.mean(axis=-1, keepdims=True)


def another_entry(evidence: Evidence) -> str | None:
    """Entries of one dim (a batch, a head, a row) hold what belongs to another entry."""
    if evidence.wrong_count < LEAST or not evidence.finite:
        return None
    for axis, extent in enumerate(evidence.shape):
        if not 1 < extent <= MOST_ENTRIES or evidence.golden.size // extent < LEAST:
            continue
        source = _sources(evidence, axis)
        if source is None:
            continue
        scale = evidence.errors.scale
        allow = None if scale is None else _limit_of(evidence, np.take(scale, source, axis))
        if evidence.explains(of_array(np.take(evidence.golden, source, axis)), allow):
            moved = [(place, int(origin)) for place, origin in enumerate(source) if place != origin]
            said = ", ".join(f"{place} holds {origin}" for place, origin in moved[:4])
            more = f" and {len(moved) - 4} more" if len(moved) > 4 else ""
            kind = "batch entries" if axis < len(evidence.shape) - 2 else "entries"
            return f"{kind} of dim {axis} stand in another's place: {said}{more}"
    return None


def _sources(evidence: Evidence, axis: int) -> np.ndarray | None:
    """For each entry of a dim the entry of the golden that it is most like; None if each is most like itself.

    By a random projection of each entry to a few numbers.
    """
    extent = evidence.shape[axis]
    stride = max(1, evidence.golden.size // extent // 4096)
    golden, got = (
        np.moveaxis(array, axis, 0).reshape(extent, -1)[:, ::stride] for array in (evidence.golden, evidence.got)
    )
    with np.errstate(all="ignore"):
        right, device = (np.nan_to_num(array.astype(np.float64), posinf=0.0, neginf=0.0) for array in (golden, got))
    weights = np.random.default_rng(0).standard_normal((right.shape[1], 8))
    right, device = right @ weights, device @ weights
    distance = np.square(right).sum(axis=1)[None, :] - 2 * device @ right.T
    source = np.argmin(distance, axis=1)
    # Where entries are equal, an entry is its own.
    own = distance[np.arange(extent), np.arange(extent)] <= distance[np.arange(extent), source]
    source = np.where(own, np.arange(extent), source)
    return None if (source == np.arange(extent)).all() else source


NUMBERED = ("dimension", "dimensions", "iota_dimension", "permutation", "broadcast_dimensions", "fft_length")
"""Attributes that name dims."""
MOST_VARIANTS = 6


def another_axis(evidence: Evidence) -> str | None:
    """The op was computed along another of its dims."""
    operands = evidence.judged.operands
    if evidence.wrong_count < LEAST or operands is None or not operands.module:
        return None
    for name, own, other, module in itertools.islice(_other_axes(operands.module), MOST_VARIANTS):
        result = _run(module, evidence)
        if result is not None and evidence.explains(of_array(result)):
            return f"computed with {name} {other} instead of {own}"
    return None


def _other_axes(module: bytes) -> Iterator[tuple[str, str, str, bytes]]:
    """Modules that differ in one attribute that names dims: its name, its text, the other one's, the module."""
    import dataclasses

    from opscope.harness.prepare.mlir.attribute_text import integers, with_integers
    from opscope.harness.prepare.mlir.variant import InvalidVariantError, build, read

    try:
        form = read(module)
    except InvalidVariantError:
        return
    for name, text in form.attributes:
        own = integers(text)
        if name not in NUMBERED or not own:
            continue
        rank = max(map(len, (*form.operands, *form.results)))
        for other in itertools.permutations(range(rank), len(own)):
            if other == own or (name == "dimensions" and sorted(other) != list(other)):
                continue
            attributes = tuple((n, with_integers(t, other) if n == name else t) for n, t in form.attributes)
            try:
                built, changed = build(module, dataclasses.replace(form, attributes=attributes))
            except InvalidVariantError:
                continue
            if changed.results == form.results:
                yield name, _axes(own), _axes(other), built


def _axes(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(values) == 1 else f"[{', '.join(map(str, values))}]"


def _run(module: bytes, evidence: Evidence) -> np.ndarray | None:
    """The result of another module on the op's inputs."""
    from opscope.harness.prepare.golden import GoldenError, compile_module

    try:
        result = compile_module(module, widen=True)(evidence.inputs)[evidence.index]
    except (GoldenError, IndexError, ValueError):
        return None
    return result if result.shape == evidence.shape else None


def exchanged(evidence: Evidence) -> str | None:
    """Two operands of one type stand in each other's place."""
    inputs = evidence.inputs
    if evidence.wrong_count < LEAST or len(inputs) != 2:
        return None
    if inputs[0].shape != inputs[1].shape or inputs[0].dtype != inputs[1].dtype:
        return None
    result = evidence.run([inputs[1], inputs[0]])
    return "its two operands are exchanged" if result is not None and evidence.explains(of_array(result)) else None
