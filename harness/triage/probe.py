"""The rule behind a failure: one axis, element type, attribute or kind of values of the op is varied at a time.

For each axis a few sizes are tried, then those that tell the rules apart which still agree (harness/triage/rules.py).
Where several axes have a threshold, one bound on the number of elements may explain them all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opscope.harness.prepare import axes
from opscope.harness.prepare.mlir import attribute_text
from opscope.harness.prepare.mlir.variant import Form
from opscope.harness.record.stages import FAILED, Stage
from opscope.harness.triage import rules, value_variants
from opscope.harness.triage.lab import LARGEST, Lab, Tried, Variant, refit

FIRST = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 256)
"""Sizes that every axis is tried at, besides its own, its neighbours, half and twice of it."""

MORE = 24
"""Further points that are tried at most, to tell rules apart."""

FURTHEST = 16
"""An axis grows to this many times its size, or to 512."""

OWN = "its own values"
VALUES = "its values are to blame"
"""How `Probed.blame` begins where values decide."""

TYPES = ("f32", "bf16", "f16", "f64", "i8", "i16", "i32", "i64", "ui8", "ui32", "i1", "complex<f32>")

Report = Callable[[str], None]


@dataclass(frozen=True)
class Finding:
    """One thing that was varied."""

    name: str
    points: tuple[tuple[str, str], ...]
    """Value -> `fails`, `passes` or how else it ended."""
    rule: str
    """The rule by which the op fails; empty if this has no influence."""
    own: str
    """The value of the failing op."""
    changes_values: bool = False
    """Whether the values become others when it is varied: a dimension, a type."""


@dataclass(frozen=True)
class Probed:
    """The result of `probe`."""

    form: Form
    findings: tuple[Finding, ...]
    blame: str
    """Whether the op's values or its shape are to blame, in one sentence; empty if values have no part in it."""
    elements: str
    """A bound on the number of elements that explains the thresholds of several axes; empty if there is none."""
    count: int
    complete: bool

    @property
    def statements(self) -> list[str]:
        """The rules, one a line; the one that explains several stands for them.

        Where values are to blame, a size or a type only decides which of them are left: neither has a rule then.
        """
        if self.blame.startswith(VALUES):
            return [finding.rule for finding in self.findings if finding.rule and not finding.changes_values]
        if self.elements:
            size = [f"fails when {self.elements}"]
            return [
                *size,
                *(f.rule for f in self.findings if f.rule and " elements" not in f.rule and not _bound(f.rule)),
            ]
        return [finding.rule for finding in self.findings if finding.rule]


def _bound(rule: str) -> bool:
    """Whether a rule is a lower bound of one axis."""
    return " >= " in rule and " and " not in rule and " or " not in rule


def probe(lab: Lab, report: Report = lambda text: None) -> Probed:
    """The rules of the lab's failure. Raises InputError if that does not show any more."""
    original, form = lab.reproduced("opscope probe")
    search = _Search(lab, original.variant, form, report)
    values = search.values() if lab.stage in (Stage.RUN, Stage.COMPARE) else []
    axes_found = search.axes()
    findings = [*values, *axes_found, *search.types(), *search.attributes()]
    blame = _blame(values, axes_found)
    return Probed(form, tuple(findings), blame, search.elements(), lab.count, not lab.out_of_budget)


def _blame(values: Sequence[Finding], axes_found: Sequence[Finding]) -> str:
    """Whether values or shape are to blame, by how the op ended with other values in its own shape."""
    if not values:
        return ""
    ends = dict(values[0].points)
    passing = [name for name, end in ends.items() if end == "passes"]
    failing = [name for name, end in ends.items() if end == "fails" and name != OWN]
    if any(name in passing for name in value_variants.ORDINARY):
        fails = f", fails with {', '.join(failing)}" if failing else ""
        return f"{VALUES}, not its shape: in its own shape the op passes with {', '.join(passing)}{fails}"
    if ends.get(value_variants.RANDOM) != "fails":
        return ""
    decided = any(finding.rule for finding in axes_found)
    what = "its shape is to blame" if decided else "the op itself is to blame, in every shape that was tried"
    return f"{what}, not its values: it fails with {', '.join(failing)} too"


class _Search:
    """Varies one thing after the other."""

    def __init__(self, lab: Lab, original: Variant, form: Form, report: Report) -> None:
        self._lab, self._original, self._form, self._report = lab, original, form, report
        self._sizes: list[tuple[int, bool]] = [(_elements(form), True)]
        """Elements of the largest tensor of the failing op and of each point of an axis, and whether it failed."""
        self._bounds = 0

    def values(self) -> list[Finding]:
        """Findings for kinds of values in the op's own shape, and for how large values may be; none without floats."""
        row, inputs = self._lab.repro.row, self._original.inputs
        kinds = dict(value_variants.variants(row.op_name, row.inputs, row.op_params, inputs))
        if not kinds:
            return []
        tried = self._lab.try_all([dataclasses.replace(self._original, inputs=values) for values in kinds.values()])
        ends = {OWN: "fails"} | {name: _end(end) for name, end in zip(kinds, tried, strict=True) if end is not None}
        self._report(f"{self._lab.count} tried: values")
        findings = [Finding("values", tuple(ends.items()), "", OWN)]
        if ends.get(value_variants.NO_OUTLIERS) == "passes":
            findings += self._largest(inputs)
        return findings

    def _largest(self, inputs: Sequence[Any]) -> list[Finding]:
        """The power of two above which a value makes the op fail, by cutting all values to smaller ones."""
        bounds = value_variants.exponents(inputs)
        if bounds is None:
            return []
        low, high = bounds
        ends = {high: "fails"}
        first, last = low, high  # passes with values up to 2^first, fails with values up to 2^last, if it is a bound
        while last - first > 1 and not self._lab.out_of_budget:
            middle = (first + last) // 2
            cut = dataclasses.replace(self._original, inputs=value_variants.up_to(inputs, middle))
            (tried,) = self._lab.try_all([cut])
            if tried is None or not (tried.fails or tried.passes):
                break
            ends[middle] = _end(tried)
            first, last = (first, middle) if tried.fails else (middle, last)
        if "passes" not in ends.values():
            return []
        points = tuple((f"2^{exponent}", ends[exponent]) for exponent in sorted(ends))
        return [Finding("largest value", points, f"fails when a value is larger than 2^{first}", f"2^{high}")]

    def axes(self) -> list[Finding]:
        """A finding for each axis."""
        return [self._axis(axis) for axis in axes.find(self._original.module, self._form)]

    def _axis(self, axis: axes.Axis) -> Finding:
        near = {axis.size - 1, axis.size + 1, axis.size // 2, axis.size * 2, axis.size * 4, axis.size * 8}
        first = sorted({size for size in (*FIRST, *near) if size > 0})

        def resized(size: int) -> tuple[bytes, Form] | None:
            return axes.with_size(self._original.module, self._form, axis, size)

        return self._numbers(axis.name, axis.size, first, max(512, axis.size * FURTHEST), resized, axis)

    def attributes(self) -> list[Finding]:
        """A finding for each integer of an attribute, and for all of one at once; then for each flag."""
        attributes_found = []
        for name, text in self._form.attributes:
            values = list(attribute_text.integers(text))
            if not values or _numbers_dimensions(name):
                continue
            together: list[int | None] = [None] if len(set(values)) == 1 and len(values) > 1 else []
            for place in [*together, *range(len(values))]:
                own = values[0] if place is None else values[place]
                label = name if place is None or len(values) == 1 else f"{name}[{place}]"
                finding = self._numbers(
                    label, own, list(range(9)), 16, lambda size, n=name, p=place: self._with(n, p, size)
                )
                if len(finding.points) > 1:
                    attributes_found.append(finding)
                if place is None and finding.rule:
                    break
        return attributes_found + self._flags()

    def _with(self, name: str, place: int | None, value: int) -> tuple[bytes, Form] | None:
        texts = dict(self._form.attributes)
        values = list(attribute_text.integers(texts[name]))
        values = [value] * len(values) if place is None else [*values[:place], value, *values[place + 1 :]]
        texts[name] = attribute_text.with_integers(texts[name], values)
        return self._form_of(dataclasses.replace(self._form, attributes=tuple(texts.items())))

    def _form_of(self, form: Form) -> tuple[bytes, Form] | None:
        return axes.first_valid(self._original.module, self._form, [form])

    def _flags(self) -> list[Finding]:
        """Attributes that are true or false, or one of a few words: other than they are."""
        flags = []
        for name, text in self._form.attributes:
            if text not in ("true", "false"):
                continue
            other = "false" if text == "true" else "true"
            texts = {**dict(self._form.attributes), name: other}
            ends = self._ends({other: self._form_of(dataclasses.replace(self._form, attributes=tuple(texts.items())))})
            rule = f"fails when {name} is {text}" if ends.get(other) == "passes" else ""
            flags.append(Finding(name, tuple({text: "fails", **ends}.items()), rule, text))
        return flags

    def types(self) -> list[Finding]:
        """A finding for the element type of the first operand, and of whatever has it too."""
        if not self._form.types:
            return []
        own = self._form.types[0]
        ends = {own: "fails"} | self._ends(
            {kind: self._form_of(_typed(self._form, own, kind)) for kind in TYPES if kind != own}
        )
        failing = [kind for kind in ends if ends[kind] == "fails"]
        passing = [kind for kind in ends if ends[kind] == "passes"]
        rule = ""
        if passing:
            few = len(failing) <= len(passing)
            rule = f"fails for {', '.join(failing)}" if few else f"fails for all types but {', '.join(passing)}"
        return [Finding("type", tuple(ends.items()), rule, own, changes_values=True)]

    def _ends(self, variant_of_name: Mapping[str, tuple[bytes, Form] | None]) -> dict[str, str]:
        """How variants end, by name; those that are no op at all are left out."""
        valid = {name: each for name, each in variant_of_name.items() if each is not None}
        tried = self._lab.try_all([refit(self._original, self._form, *each) for each in valid.values()])
        return {name: _end(end) for name, end in zip(valid, tried, strict=True) if end is not None}

    def _numbers(
        self,
        name: str,
        own: int,
        first: list[int],
        furthest: int,
        make: Callable[[int], tuple[bytes, Form] | None],
        axis: axes.Axis | None = None,
    ) -> Finding:
        """The finding for an integer that `make` gives variants of."""
        points: dict[int, bool] = {own: True}
        end_of_size = {own: "fails"}

        def try_sizes(sizes: list[int]) -> None:
            variant_of_size = {
                size: variant
                for size in sizes
                if size not in end_of_size and (variant := make(size)) is not None and variant[1].elements <= LARGEST
            }
            variants = [refit(self._original, self._form, *variant) for variant in variant_of_size.values()]
            for (size, (_, form)), tried in zip(variant_of_size.items(), self._lab.try_all(variants), strict=True):
                if tried is None:
                    continue
                end_of_size[size] = _end(tried)
                if tried.fails or tried.passes:
                    points[size] = tried.fails
                    if axis is not None:
                        self._sizes.append((_elements(form), tried.fails))

        def try_size(size: int) -> bool | None:
            try_sizes([size])
            return points.get(size)

        try_sizes(first)
        rule = None
        if len(set(points.values())) > 1:
            step = max(1, furthest // 4096)
            rule = rules.settle(points, try_size, range(1 if axis else 0, furthest + 1, step), MORE)
        text = f"fails when {rule.of(name)}" if rule is not None else ""
        if rule is None and len(set(points.values())) > 1:
            text = f"depends on {name}, by no simple rule"
        if axis is not None and rule is not None and _bound(rule.text):
            self._bounds += 1
        self._report(f"{self._lab.count} tried: {name}: {text or 'does not decide'}")
        ends = tuple((str(size), end_of_size[size]) for size in sorted(end_of_size))
        return Finding(name, ends, text, str(own), axis is not None)

    def elements(self) -> str:
        """The bound on the number of elements that explains the thresholds of several axes, if one does."""
        if self._bounds < 2:
            return ""
        passing = [size for size, fails in self._sizes if not fails]
        failing = [size for size, fails in self._sizes if fails]
        if not passing or not failing or max(passing) >= min(failing):
            return ""
        low, high = max(passing), min(failing)
        untried = f" ({low + 1} to {high - 1} were not tried)" if high - low > 1 else ""
        return f"size >= {high}{untried}"


def _elements(form: Form) -> int:
    """Elements of the largest tensor."""
    return max((math.prod(shape) for shape in (*form.operands, *form.results)), default=0)


def _typed(form: Form, own: str, kind: str) -> Form:
    """The form with another element type wherever the first operand's stands."""
    return dataclasses.replace(
        form,
        types=tuple(kind if each == own else each for each in form.types),
        result_types=tuple(kind if each == own else each for each in form.result_types),
    )


def _numbers_dimensions(name: str) -> bool:
    """Whether the integers of an attribute are numbers of dimensions: those are no quantities."""
    return name in (
        "permutation",
        "dimensions",
        "dimension",
        "broadcast_dimensions",
        "dimension_numbers",
        "iota_dimension",
    )


def _end(tried: Tried) -> str:
    """How a variant ended, in a word or two."""
    if tried.fails:
        return "fails"
    if tried.passes:
        return "passes"
    if tried.test is None:
        return "no golden"
    status = tried.test.status
    return f"a different failure ({status})" if status in FAILED else str(status)
