"""The axes of an op: which of its dimensions change together, found by asking StableHLO's verifier.

Nothing is known of any op here but what its extents are. For each dimension of an operand (or of a result that no
operand decides) the smallest set of equal extents that may change together is looked for: alone, with one more, with
the same dimension of every operand, or with all of that extent. So the contracted dimensions of a dot_general find each
other, and those of an addition.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from opscope.harness.prepare.mlir import attribute_text
from opscope.harness.prepare.mlir.variant import Form, InvalidVariantError, Shape, build

Place = tuple[str, int, int]
"""`o` or `r` (operand, result), its number, its dimension."""


@dataclass(frozen=True)
class Axis:
    """Dimensions that change together: each extent is the axis's size times its factor."""

    name: str
    size: int
    places: tuple[tuple[Place, int], ...]


NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "stablehlo.convolution": (("N", "H", "W", "C"), ("KH", "KW", "C", "O")),
    "stablehlo.dot_general": (("M", "K"), ("K", "N")),
}
"""Op -> usual names of its operands' dimensions, for operands of this rank in this order."""


INSIDE = ("fft_length", "limit_indices", "slice_sizes", "start_indices")
"""Attributes whose entries, one for each dimension, are bounded by the extents of the first operand."""


def resized(form: Form, axis: Axis, size: int) -> Iterator[Form]:
    """The forms that an op may have when `axis` has another size, the likelier first; attributes follow."""
    factors = dict(axis.places)

    def extent(place: Place, old: int) -> int:
        return size * factors[place] if place in factors else old

    operands = tuple(
        tuple(extent(("o", n, d), old) for d, old in enumerate(shape)) for n, shape in enumerate(form.operands)
    )
    results = tuple(
        tuple(extent(("r", n, d), old) for d, old in enumerate(shape)) for n, shape in enumerate(form.results)
    )
    resized_form = dataclasses.replace(form, operands=operands, results=results)
    clipped = dataclasses.replace(resized_form, attributes=_clipped(form, operands))
    moved = _result_guesses(form, axis, size, results)
    for base in dict.fromkeys((resized_form, clipped)):
        yield base
        yield from (dataclasses.replace(base, results=guess) for guess in moved)


def _clipped(form: Form, operands: tuple[Shape, ...]) -> tuple[tuple[str, str], ...]:
    """The attributes that lie inside the first operand, inside its new shape. Others stay: they are no extents."""
    if not operands:
        return form.attributes
    before, after = form.operands[0], operands[0]
    kept = []
    for name, text in form.attributes:
        values = attribute_text.integers(text)
        if name in INSIDE and attribute_text.is_array(text) and len(values) == len(after):
            # An entry that reached to the end still does; others stay inside.
            clipped = [
                new if value == old else min(value, new) for value, old, new in zip(values, before, after, strict=True)
            ]
            text = attribute_text.with_integers(text, clipped)
        kept.append((name, text))
    return tuple(kept)


def _result_guesses(form: Form, axis: Axis, size: int, results: tuple[Shape, ...]) -> list[tuple[Shape, ...]]:
    """Results in which dimensions of the axis's extents change too: at the same place, each alone, all of them."""
    changed = {place[2]: factor for place, factor in axis.places if place[0] == "o"}
    olds = {axis.size * factor: size * factor for _, factor in axis.places}
    spots = [(n, d) for n, shape in enumerate(form.results) for d, old in enumerate(shape) if old in olds]

    def put(which: Iterable[tuple[int, int]]) -> tuple[Shape, ...]:
        chosen = set(which)
        return tuple(
            tuple(olds[form.results[n][d]] if (n, d) in chosen else extent for d, extent in enumerate(shape))
            for n, shape in enumerate(results)
        )

    same = [(n, d) for n, d in spots if d in changed]
    guesses = [put(same), *(put([spot]) for spot in spots), put(spots)]
    return [guess for guess in dict.fromkeys(guesses) if guess != results]


def with_size(module: bytes, form: Form, axis: Axis, size: int) -> tuple[bytes, Form] | None:
    """The module whose axis has this size; None if there is no such op."""
    variant = first_valid(module, form, resized(form, axis, size))
    if variant is None:
        return None
    # A result that is inferred all the same was not this axis's to decide.
    decides = all(variant[1].results[n][d] == size * factor for (kind, n, d), factor in axis.places if kind == "r")
    return variant if decides else None


def first_valid(module: bytes, before: Form, forms: Iterable[Form]) -> tuple[bytes, Form] | None:
    """The first of the forms that StableHLO accepts; none with an empty tensor where the op `before` had none."""
    for form in forms:
        try:
            valid = build(module, form)
        except InvalidVariantError:
            continue
        if _empty(before) or not _empty(valid[1]):
            return valid
    return None


def _empty(form: Form) -> bool:
    return any(0 in shape for shape in (*form.operands, *form.results))


def find(module: bytes, form: Form, exists: Callable[[bytes, Form, Axis, int], object] = with_size) -> list[Axis]:
    """The axes of an op, those of its operands first. A dimension that nothing can change belongs to none, as all of a
    loop, whose bodies take its operands as they are."""
    if form.name == "stablehlo.while":
        return []
    places: list[tuple[Place, int]] = [
        (("o", n, d), extent) for n, shape in enumerate(form.operands) for d, extent in enumerate(shape)
    ]
    places += [(("r", n, d), extent) for n, shape in enumerate(form.results) for d, extent in enumerate(shape)]
    taken: set[Place] = set()
    axes: list[Axis] = []
    for place, size in places:
        if place in taken or size < 1 or (place[0] == "r" and any(_decided(form, axis, place) for axis in axes)):
            continue
        for some in _groups(place, size, places, taken, len(form.operands)):
            group = tuple(dict.fromkeys((twin, factor) for each, factor in some for twin in _twins(form, each)))
            axis = Axis(_name(form, place), size, group)
            other = [trial for trial in (size - 1, size + 1, 2 * size, size // 2) if trial > 0]
            if any(exists(module, form, axis, trial) for trial in other):
                axes.append(axis)
                taken.update(each for each, _ in group)
                break
    return axes


def _groups(
    place: Place, size: int, places: list[tuple[Place, int]], taken: set[Place], operands: int
) -> Iterator[tuple[tuple[Place, int], ...]]:
    """The sets of dimensions that may change with `place`, the smallest first."""
    own = (place, 1)
    equal = [each for each, extent in places if extent == size and each != place and each not in taken]
    inputs = [each for each in equal if each[0] == "o"]
    yield (own,)
    yield from ((own, (each, 1)) for each in inputs if each[1] != place[1])
    yield (own, *((each, 1) for each in inputs if each[2] == place[2]))
    yield (own, *((each, 1) for each in inputs))
    yield from ((own, (each, 1)) for each in equal if each[0] == "r")
    yield (own, *((each, 1) for each in equal))
    # A reshape: a dimension that is a multiple of this one.
    multiples = [
        (e, extent // size)
        for e, extent in places
        if e[0] == "r" and place[0] == "o" and size > 1 and extent % size == 0 and extent > size
    ]
    yield from ((own, each) for each in multiples)
    for other, extent in places:
        if other[0] == "r" and place[0] == "o" and extent > 1 and size % extent == 0 and size > extent:
            yield ((place, 1), (other, 1)) if size == extent else ((other, 1), (place, size // extent))


def _twins(form: Form, place: Place) -> list[Place]:
    """The place, and the same dimension of every operand that is the same argument: `x * x` has one x."""
    kind, number, dim = place
    if kind != "o" or form.arguments[number] < 0:
        return [place]
    return [("o", n, dim) for n, argument in enumerate(form.arguments) if argument == form.arguments[number]]


def _decided(form: Form, axis: Axis, place: Place) -> bool:
    """Whether a result's dimension follows from an axis of operands: of the same place, or of the same extent."""
    size = form.results[place[1]][place[2]]
    return any(axis.size * factor == size for _, factor in axis.places)


def _name(form: Form, place: Place) -> str:
    """What a dimension is called."""
    kind, number, dim = place
    shape = (form.operands if kind == "o" else form.results)[number]
    names = NAMES.get(form.name, ())
    if kind == "o" and number < len(names) and len(names[number]) == len(shape):
        return names[number][dim]
    whose = f" of operand {number}" if kind == "o" and len(form.operands) > 1 and number else ""
    return f"dim {dim}{whose}" if kind == "o" else f"dim {dim} of the result"


def unit_dims_dropped(form: Form) -> Iterator[Form]:
    """Forms of one rank less: a dimension of extent 1 goes in all operands and results that have it."""
    shapes = (*form.operands, *form.results)
    ranks = sorted({len(shape) for shape in shapes if len(shape)}, reverse=True)
    for rank in ranks:
        for dim in range(rank):
            if not any(len(shape) == rank and shape[dim] == 1 for shape in shapes):
                continue
            texts = [attribute_text.without_dimension(text, rank, dim) for _, text in form.attributes]
            for own in (True, False):
                operands = tuple(_cut(shape, rank, dim) for shape in form.operands)
                results = tuple(_cut(shape, rank, dim) if own else shape for shape in form.results)
                for choice in itertools.islice(itertools.product(*texts), 8):
                    names = [name for name, _ in form.attributes]
                    attributes = tuple(zip(names, choice, strict=True))
                    yield dataclasses.replace(form, operands=operands, results=results, attributes=attributes)


def _cut(shape: Shape, rank: int, dim: int) -> Shape:
    """The shape without a dimension of extent 1."""
    return shape[:dim] + shape[dim + 1 :] if len(shape) == rank and shape[dim] == 1 else shape
