"""Makes a failing op small by delta debugging over its axes, its rank, its attributes, its regions and its values.

A step is kept where StableHLO's verifier accepts the op, its regions still compute what they did (a reduction by
maximum stays one), and the same failure (status, stage, kind of crash, fingerprint, question) is still there. The
passes repeat until none finds a smaller op, or the budget is spent. Of a piece of several ops the dimensions and the
values of its arguments are made smaller, through all its ops at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.harness.prepare import axes
from opscope.harness.prepare.mlir import attribute_text
from opscope.harness.prepare.mlir.variant import Form, InvalidVariantError, inlined, region_kinds, without_inner_ops
from opscope.harness.record.stages import Stage
from opscope.harness.triage.lab import Lab, Tried, Variant, fitted, refit
from opscope.harness.triage.piece_axes import PieceAxes

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 33, 48, 64, 65, 96, 128, 129, 256, 512, 1024, 2048, 4096)
"""Sizes that an axis is tried at, smallest first; then what lies between the last two by halves."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Reduced:
    """The smallest op found."""

    before: Form
    after: Form
    tried: Tried
    steps: tuple[str, ...]
    count: int
    """Variants that were run."""
    complete: bool
    """Whether no pass finds anything smaller; else the budget ended it."""


def reduce(lab: Lab, report: Report = lambda text: None) -> Reduced:
    """The smallest op that fails as the lab's does. Raises InputError if that failure does not show any more."""
    first, before = lab.reproduced("opscope reduce")
    search = _Search(lab, first, report)
    if lab.whole is not None:
        search.steps.append(f"{first.variant.form.name} alone")
    stays = lab.compares_lowerings and first.variant.name  # a window that two backends lower differently
    while not stays and search.round() and not lab.out_of_budget:
        pass
    after = search.best.variant.form
    return Reduced(before, after, search.best, tuple(search.steps), lab.count, not lab.out_of_budget)


class _Search:
    """The smallest so far, and the passes."""

    def __init__(self, lab: Lab, best: Tried, report: Report) -> None:
        self.lab, self.best, self._report = lab, best, report
        self._axes_of: tuple[bytes, PieceAxes] | None = None
        self.steps: list[str] = []

    def round(self) -> bool:
        """Runs all passes once. Returns whether any made the op smaller."""
        before = len(self.steps)
        if self.best.variant.name:
            self._axes_of_piece()
        else:
            self._axes()
            self._first("one dimension fewer", self._of_forms(axes.unit_dims_dropped))
            self._attributes()
            self._regions()
        if self.lab.stage in (Stage.RUN, Stage.COMPARE):
            self._values()
        return len(self.steps) > before

    def _first(self, step: str, variants: Iterable[Variant]) -> bool:
        """Keeps the first of the variants that still fails."""
        batch: list[Variant] = []
        for variant in variants:
            batch.append(variant)
            if len(batch) == self.lab.width and self._try_batch(step, batch):
                return True
            batch = batch if len(batch) < self.lab.width else []
            if self.lab.out_of_budget:
                return False
        return bool(batch) and self._try_batch(step, batch)

    def _try_batch(self, step: str, batch: list[Variant]) -> bool:
        for tried in self.lab.try_all(batch):
            if tried is not None and tried.fails:
                self.best = tried
                self.steps.append(step)
                self._report(f"{self.lab.count} tried: {step}; {form_text(tried.variant.form)}")
                return True
        self._report(f"{self.lab.count} tried; {form_text(self.best.variant.form)}")
        return False

    def _of_forms(self, forms: Callable[[Form], Iterable[Form]]) -> Iterator[Variant]:
        """The variants that these forms of the smallest op make."""
        variant, form = self.best.variant, self.best.variant.form
        for other in forms(form):
            valid = axes.first_valid(variant.module, form, [other])
            if valid is not None and valid[1] != form:
                yield refit(variant, form, *valid)

    def _axes(self) -> None:
        def exists(*of: Any) -> bool:  # each try builds a module
            return not self.lab.out_of_budget and axes.with_size(*of) is not None

        found = axes.find(self.best.variant.module, self.best.variant.form, exists)
        for found_axis in sorted(found, key=lambda axis: -axis.size):
            axis, below = found_axis, 0  # no size up to `below` fails
            while not self.lab.out_of_budget:
                sizes = _between(below, axis.size)
                if not self._first(f"{axis.name} smaller", self._sized(axis, sizes)):
                    break
                now = self._size(axis)
                if now >= axis.size:
                    break
                axis = dataclasses.replace(axis, size=now)
                below = max((size for size in sizes if size < now), default=below)

    def _axes_of_piece(self) -> None:
        """Makes the axes of a module of several ops smaller, as far as its ops can be resized one after another."""
        try:
            dims = self._piece.sizes()
        except InvalidVariantError:
            return
        for dim, _ in dims:
            below = 0
            while not self.lab.out_of_budget:
                value, place = dim
                sizes = _between(below, now := self._piece.shapes[value][place])
                if not self._first(f"dim {place} of input {value} smaller", self._piece_sized(dim, sizes)):
                    break
                after = self._piece.shapes[value][place]
                if after >= now:
                    break
                below = max((size for size in sizes if size < after), default=below)

    @property
    def _piece(self) -> PieceAxes:
        """The axes of the smallest module so far."""
        module = self.best.variant.module
        if self._axes_of is None or self._axes_of[0] != module:
            self._axes_of = module, PieceAxes(module)
        return self._axes_of[1]

    def _piece_sized(self, dim: tuple[int, int], sizes: Iterable[int]) -> Iterator[Variant]:
        variant, piece = self.best.variant, self._piece
        for size in sizes:
            if (built := piece.with_size(dim, size)) is not None:
                module, shapes = built
                arrays = zip(variant.inputs, shapes, strict=True)
                yield Variant(module, tuple(fitted(array, shape, array.dtype) for array, shape in arrays), variant.name)

    def _sized(self, axis: axes.Axis, sizes: Iterable[int]) -> Iterator[Variant]:
        variant, form = self.best.variant, self.best.variant.form
        for size in sizes:
            built = axes.with_size(variant.module, form, axis, size)
            if built is not None and built[1].elements <= form.elements:  # a smaller window may make a larger result
                yield refit(variant, form, *built)

    def _size(self, axis: axes.Axis) -> int:
        """The size of an axis in the smallest op."""
        (kind, number, dim), factor = axis.places[0]
        form = self.best.variant.form
        return (form.operands if kind == "o" else form.results)[number][dim] // factor

    def _attributes(self) -> None:
        """Removes attributes that are not needed; the integers of the others become 1 or 0."""

        def without(name: str) -> Callable[[Form], Iterable[Form]]:
            def forms(form: Form) -> Iterable[Form]:
                kept = tuple(each for each in form.attributes if each[0] != name)
                yield dataclasses.replace(form, attributes=kept)

            return forms

        for name, text in self.best.variant.form.attributes:
            # What is printed again although it was left out is not gone.
            fewer = len(self.best.variant.form.attributes)
            variants = (v for v in self._of_forms(without(name)) if len(v.form.attributes) < fewer)
            if self._first(f"without {name}", variants):
                continue
            values = set(attribute_text.integers(text))
            if not values or values == {1} or values == {0}:  # neither is simpler than the other
                continue
            for value in (1, 0):
                if self._first(f"{name} all {value}", self._of_forms(lambda form, n=name, v=value: _all(form, n, v))):
                    break

    def _regions(self) -> None:
        if (module := inlined(self.best.variant.module)) is not None:
            self._first("its functions in their places", [Variant(module, self.best.variant.inputs)])
        while self.best.variant.form.region_ops and not self.lab.out_of_budget:
            variant = self.best.variant
            # The op that failed must still be there: a maximum whose body returns an argument is another op.
            kinds = region_kinds(variant.module)
            modules = (module for module in without_inner_ops(variant.module) if region_kinds(module) == kinds)
            smaller = (Variant(module, variant.inputs) for module in modules)
            if not self._first("one op fewer in its region", smaller):
                return

    def _values(self) -> None:
        for number, array in enumerate(self.best.variant.inputs):
            for value in (0, 1):
                flat = np.full(array.shape, value, array.dtype)
                if np.array_equal(flat, self.best.variant.inputs[number]):
                    break
                inputs = list(self.best.variant.inputs)
                inputs[number] = flat
                changed = Variant(self.best.variant.module, tuple(inputs), self.best.variant.name)
                if self._first(f"input {number} all {value}", [changed]):
                    break


def _between(below: int, size: int) -> list[int]:
    """Sizes above `below` and under `size`, smallest first: the usual ones, then nearer and nearer to `size`."""
    sizes = [usual for usual in SIZES if below < usual < size]
    gap = size - (sizes[-1] if sizes else below)
    while gap > 1:
        gap //= 2
        sizes.append(size - gap)
    return sizes


def _all(form: Form, name: str, value: int) -> Iterable[Form]:
    """The form with each integer of an attribute the same."""
    texts = dict(form.attributes)
    count = len(attribute_text.integers(texts.get(name, "")))
    if count:
        texts[name] = attribute_text.with_integers(texts[name], [value] * count)
        yield dataclasses.replace(form, attributes=tuple(texts.items()))


MOST_OPERANDS = 6
"""Operands in a line."""


def form_text(form: Form) -> str:
    """An op on one line: name, types, how many attributes and inner ops it has."""
    types = ["x".join([*map(str, shape), kind]) for shape, kind in zip(form.operands, form.types, strict=True)]
    if len(types) > MOST_OPERANDS:  # of a whole model, its weights
        types[MOST_OPERANDS - 1 :] = [f"and {len(types) - MOST_OPERANDS + 1} more"]
    more = [f"{len(form.attributes)} attribute{'s' * (len(form.attributes) != 1)}"] * bool(form.attributes)
    more += [f"{form.region_ops} inner ops"] * bool(form.region_ops)
    return f"{form.name}({', '.join(types)}){', ' if more else ''}{', '.join(more)}"
