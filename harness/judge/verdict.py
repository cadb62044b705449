"""A verdict on results: right, wrong or undecided, and why; what costs time is computed when it is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from opscope.base.op_families import op_family
from opscope.harness.explain.element_errors import ElementErrors, Judged, element_errors
from opscope.harness.formulas.nearest import PART, off_by
from opscope.harness.judge.reach import Reach, reach
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.record.flags import in_words
from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict import tails
from opscope.harness.verdict.meaning import ExactOperands, name_of
from opscope.harness.verdict.scores import SLACK, Scale, chunks

if TYPE_CHECKING:
    from opscope.wire import judge as wire

Answer = Literal["right", "wrong", "undecided"]
WORST_SHOWN = 8
"""Worst elements of a result that are shown."""
EXIT = {"right": 0, "wrong": 1, "undecided": 2}
"""Answer -> exit code of a command."""


@dataclass(frozen=True)
class WorstElement:
    """An element that is farther off than others."""

    index: tuple[int, ...]
    inputs: tuple[float, ...]
    """The operands at its own place, of an elementwise op; none of others."""
    expected: float
    got: float
    ulp: float
    """Its error in units in the last place of the result's type."""
    z: float | None
    """Its error over what an honest evaluation may be off; None where equal bits are asked for."""

    def __str__(self) -> str:
        of = f" of {', '.join(f'{each:.9g}' for each in self.inputs)}" if self.inputs else ""
        z = "" if self.z is None else f", z {self.z:+.3g}"
        off = f" ({self.ulp:.4g} ulp{z})" if z or math.isfinite(self.ulp) else ""
        return f"{list(self.index)}{of}: expected {self.expected:.9g}, got {self.got:.9g}{off}"


@dataclass(frozen=True)
class Cancelled:
    """Elements that are right only because the op's own steps cancel there."""

    count: int
    of: int
    smallest: float
    largest: float
    """The range of the first operand there, of an elementwise op; NaN of others."""

    def __str__(self) -> str:
        where = "" if np.isnan(self.smallest) else f", from {self.smallest:.4g} to {self.largest:.4g}"
        return f"{self.count:,} of {self.of:,} elements are right only as its steps cancel{where}"


@dataclass(frozen=True)
class Verdict:
    """Whether results are right. A verdict is true where its answer is `right`."""

    answer: Answer
    reason: str
    """Why it is not right; empty if it is."""
    grade: str
    """`kernel`: within the accuracy that was promised in ULP, or with the exact bits where there is one right answer;
    `op`: within what the target's steps may cost; `body`: as an evaluation step by step has it, which cancels in some
    elements. Empty unless it is right."""
    by: str
    """Who made the golden."""
    promise: str
    """What the result was held to."""
    checks: tuple[ResultCheck, ...]
    """What a run's record would have of each result."""
    golden_checks: tuple[ResultCheck, ...] = ()
    """The same of a golden that the caller gave, where the op has a formula."""
    _judged: Judged | None = field(default=None, repr=False)
    _exact: tuple[np.ndarray, ...] | None = field(default=None, repr=False)
    _inputs: tuple[np.ndarray, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return self.answer == "right"

    @property
    def exit_code(self) -> int:
        """0 right, 1 wrong, 2 undecided."""
        return EXIT[self.answer]

    @property
    def flags(self) -> tuple[str, ...]:
        """What the record would flag, of all results (docs/results.md)."""
        return tuple(dict.fromkeys(flag for check in self.checks for flag in check.flags))

    @property
    def got(self) -> tuple[np.ndarray, ...]:
        """The results that were judged."""
        return () if self._judged is None else tuple(self._judged.got)

    @property
    def golden(self) -> tuple[np.ndarray, ...]:
        """The right results, each rounded to the result's type."""
        return () if self._judged is None else tuple(self._judged.golden)

    @cached_property
    def ulp(self) -> tuple[np.ndarray, ...]:
        """Error of each element in units in the last place of its result's type, float64; of integers 0 or infinite. Of
        values in float64 where the op has a formula, else of the rounded golden. Empty if a shape or a type differs."""
        if self._judged is None:
            return ()
        exact = self._exact or self._judged.golden
        return tuple(
            _ulp(right, got) for right, got in zip(exact, self._judged.got, strict=False) if right.shape == got.shape
        )

    @property
    def largest_ulp(self) -> float:
        """The largest error in units in the last place."""
        return max((float(each.max(initial=0.0)) for each in self.ulp), default=float("nan"))

    @property
    def largest_relative(self) -> float:
        """The largest |got - golden| / |golden| of finite elements whose golden is not zero."""
        largest = 0.0
        for right, got in zip(self.golden, self.got, strict=False):
            if right.shape == got.shape and is_float(right) and right.dtype.kind != "c":
                g, d = right.astype(np.float64), got.astype(np.float64)
                with np.errstate(all="ignore"):
                    off = np.abs(d - g) / np.abs(g)
                largest = max(largest, float(off[np.isfinite(off)].max(initial=0.0)))
        return largest

    @property
    def equal(self) -> float:
        """The share of elements with the golden's own value."""
        pairs = [(g, d) for g, d in zip(self.golden, self.got, strict=False) if g.shape == d.shape]
        same = [np.count_nonzero((g == d) | ((g != g) & (d != d))) for g, d in pairs]
        return sum(map(int, same)) / max(1, sum(g.size for g, _ in pairs))

    @cached_property
    def _held(self) -> Judged:
        """What was judged, as the verdict has it: without what is documented."""
        assert self._judged is not None
        return self._judged.meant()

    @cached_property
    def _errors(self) -> tuple[ElementErrors | None, ...]:
        """The error of every element, of results that have numbers."""
        known = []
        for number, check in enumerate(self.checks):
            golden, got = (each[number : number + 1] for each in (self._held.golden, self._held.got))
            fits = bool(golden) and bool(got) and golden[0].shape == got[0].shape and golden[0].dtype == got[0].dtype
            known.append(element_errors(self._held, number, check) if fits else None)
        return tuple(known)

    @cached_property
    def hypothesis(self) -> str:
        """What may have made a wrong result, `factor: ...`; empty if nothing fits or nothing is wrong."""
        if self._judged is None or self.answer != "wrong":
            return ""
        from opscope.harness.explain.hypotheses.evidence import Evidence
        from opscope.harness.explain.hypotheses.table import hypothesis

        for number, (check, errors) in enumerate(zip(self.checks, self._errors, strict=True)):
            if errors is not None and not check.passed and (said := hypothesis(Evidence(self._held, number, errors))):
                return said
        return ""

    @cached_property
    def worst(self) -> tuple[WorstElement, ...]:
        """The worst elements of the first result that is wrong, or of the first; the worst first."""
        if self._judged is None or not self.checks:
            return ()
        number = next((n for n, check in enumerate(self.checks) if not check.passed), 0)
        errors = self._errors[number]
        if errors is None or number >= len(self.ulp):
            return ()
        ulp = self.ulp[number]
        # By what the verdict rests on where it is wrong; else by what a user counts in.
        size = np.abs(errors.z) if errors.z is not None and self.answer == "wrong" and not self._by_ulp else ulp
        flat = np.ravel(size)
        kept = np.argpartition(flat, -min(WORST_SHOWN, flat.size))[-min(WORST_SHOWN, flat.size) :] if flat.size else []
        return tuple(
            self._element(number, int(place), errors, ulp)
            for place in sorted(kept, key=lambda place: (-flat[place], place))
            if flat[place] > 0
        )

    @property
    def _elementwise(self) -> bool:
        """Whether each element is made of the operands at its own place."""
        assert self._judged is not None
        meaning = self._judged.operands.meaning if isinstance(self._judged.operands, ExactOperands) else None
        return op_family(self._judged.op_name) == "eltwise" or (meaning is not None and meaning.elementwise)

    @property
    def first_operand(self) -> np.ndarray | None:
        """The first operand, of an elementwise op in the shape of its result; None of others."""
        fits = self._inputs and self.ulp and self._inputs[0].shape == self.ulp[0].shape
        return self._inputs[0] if fits and self._elementwise else None

    @property
    def _by_ulp(self) -> bool:
        return all(check.passed for check in self.checks)

    def _element(self, number: int, place: int, errors: ElementErrors, ulp: np.ndarray) -> WorstElement:
        index = tuple(map(int, np.unravel_index(place, ulp.shape)))
        alike = (
            self._elementwise
            and self._inputs
            and all(x.shape == ulp.shape and x.dtype.kind != "c" for x in self._inputs)
        )
        right = self._exact[number] if self._exact else errors.golden
        return WorstElement(
            index,
            tuple(float(x[index]) for x in self._inputs) if alike else (),
            float(np.real(right[index])),
            float(np.real(self.got[number][index])),
            float(ulp[index]),
            None if errors.z is None else float(errors.z[index]),
        )

    @cached_property
    def cancelled(self) -> Cancelled | None:
        """Which elements are right only as a body is; None if the op is a single step, or none is."""
        operands = None if self._judged is None else self._judged.operands
        meaning = operands.meaning if isinstance(operands, ExactOperands) else None
        if self._judged is None or meaning is None or not meaning.roundings or self.answer != "right":
            return None
        for number, check in enumerate(self.checks):
            steps = self._judged.steps(number)
            golden, got = self._held.golden[number], self._held.got[number]
            if steps is None or not check.passed or not is_float(golden) or golden.dtype.kind == "c":
                continue
            over, scale = np.zeros(golden.size, bool), Scale(steps)
            columns = golden.shape[-1] if golden.ndim else 1
            for start, end in chunks(golden.size, columns, PART):
                with np.errstate(all="ignore"):
                    g, d = (np.ravel(each)[start:end].astype(np.float64) for each in (golden, got))
                    off = np.abs(d - g)
                    if off.any():
                        over[start:end] = (off > SLACK * scale.of(slice(start, end), g, columns)) & np.isfinite(off)
            if over.any():
                alike = meaning.elementwise and self._inputs[0].shape == golden.shape
                x = np.ravel(self._inputs[0])[over].astype(np.float64) if alike else np.array([np.nan])
                return Cancelled(int(over.sum()), golden.size, float(x.min()), float(x.max()))
        return None

    @cached_property
    def documented(self) -> tuple[str, ...]:
        """Which of its target's documented tails some elements are right by, in words."""
        if self._judged is None or not self._inputs or "documented_tail" not in self.flags:
            return ()
        target, name = self._judged.target, name_of(self._judged.op_name, self._judged.operands)
        known, said = tails.of(target.tails, name, target.float_format), []
        for tail in known:
            pairs = zip(self.golden, self.got, strict=False)
            counts = [tails.documented([tail], golden, got, self._inputs) for golden, got in pairs]
            if count := sum(int(where.sum()) for where in counts if where is not None):
                said.append(f"{count:,} elements are as documented: {tail}")
        if not said:
            said = [str(form) for form in target.forms if form.name == name]
        return tuple(said or ["elements that meet NaN, Infinity or a denormal are as the card's steps have them"])

    @cached_property
    def reach(self) -> tuple[Reach | None, ...]:
        """Which part of its type each operand reached."""
        return reach(self._inputs)

    def named(self, name: str) -> wire.Judged:
        """The verdict on a result of that name, as `opscope judge --json` prints it."""
        from opscope.wire import judge as wire

        return wire.Judged(
            name=name,
            answer=self.answer,
            grade=self.grade,
            reason=self.reason,
            by=self.by,
            target=self.promise,
            flags=self.flags,
            hypothesis=self.hypothesis,
            largest_ulp=self.largest_ulp,
            largest_relative=self.largest_relative,
            equal=self.equal,
            cancelled=None if self.cancelled is None else wire.Cancelled.model_validate(self.cancelled),
            golden=self.golden_checks,
            worst=tuple(map(wire.Worst.model_validate, self.worst)),
            reach=tuple(None if each is None else wire.Reach.model_validate(each) for each in self.reach),
            checks=self.checks,
        )

    def as_json(self) -> dict[str, Any]:
        """The verdict as JSON has it; numbers that are not finite as text."""
        return self.named("").model_dump(mode="json", exclude={"name"})

    def __str__(self) -> str:
        """A few lines: answer, figures, worst elements, what was reached."""
        grade = {"kernel": ", as the kernel was promised", "body": ", as its steps have it"}.get(self.grade, "")
        said = self.reason or self._figures()
        lines = [said if said.startswith(f"{self.answer} ") else f"{self.answer}{grade}: {said}"]
        if self.reason and self._judged is not None and self.got:
            lines.append(f"  {self._figures()}")
        lines.append(f"  golden: {self.by or 'none'}; held to {self.promise}")
        lines += [f"  {in_words(flag)} ({flag})" for flag in self.flags]
        if any(not check.passed for check in self.golden_checks):
            reason = next(check.reason for check in self.golden_checks if not check.passed)
            lines.append(f"  the given golden is wrong by this one: {reason}")
        if self.hypothesis:
            lines.append(f"  {self.hypothesis}")
        if self.cancelled is not None:
            lines.append(f"  {self.cancelled}")
        lines += [f"  {each}" for each in self.documented]
        lines += [f"  {each}" for each in self.worst[:4]]
        lines += [f"  operand {n}: {each}" for n, each in enumerate(self.reach) if each is not None]
        return "\n".join(lines)

    def _figures(self) -> str:
        if not any(map(is_float, self.got)):
            off = max(check.max_abs or 0.0 for check in self.checks)
            return f"{self.equal:.2%} equal, the others at most {off:g} off" if off else "all equal"
        z = max((check.z_max or 0.0 for check in self.checks), default=0.0)
        far = f"at most {self.largest_ulp:.4g} ulp, {self.largest_relative:.3g} relative"
        return f"{far}, z {z:.3g}; {self.equal:.2%} equal"


def _ulp(right: np.ndarray, got: np.ndarray) -> np.ndarray:
    if not is_float(got) or got.dtype.kind == "c":
        return np.where(np.asarray(right).astype(got.dtype) == got, 0.0, np.inf)
    return off_by(right, got)
