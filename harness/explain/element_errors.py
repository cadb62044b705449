"""The error of every element of a wrong result: its z, its scale, and whether it is beyond its limit.

The same figures that the verdict rests on (harness/verdict/scores.py), kept per element instead of summed up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opscope.base.op_families import judged_as
from opscope.harness.record.records import ResultCheck, TensorDesc
from opscope.harness.verdict.compare import operand_types
from opscope.harness.verdict.meaning import as_documented, family, meant
from opscope.harness.verdict.moments import TINY
from opscope.harness.verdict.operands import NotEvaluatedError, Operands
from opscope.harness.verdict.scores import WORST, Scale, Scores, chunks
from opscope.harness.verdict.steps import Steps, steps_of
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.tolerance import inner_size

_CHUNK = 1 << 16


@dataclass(frozen=True)
class ElementErrors:
    """One result, its golden, and the error of each element; all arrays have the result's shape."""

    golden: np.ndarray
    got: np.ndarray
    wrong: np.ndarray
    """Whether an element is beyond its limit, or NaN or infinite where it must not be."""
    z: np.ndarray | None
    """Signed error over scale, float32, at most WORST; None if the result is held to exact values."""
    scale: np.ndarray | None
    limit: float | None
    steps: Steps | None

    def as_row(self) -> ElementErrors:
        """A single number as a row of one, so that places of elements have an axis; all else as it is."""
        if self.golden.ndim:
            return self
        known = {name: value for name, value in vars(self).items() if isinstance(value, np.generic | np.ndarray)}
        return replace(self, **{name: np.reshape(value, 1) for name, value in known.items()})

    def allowed(self, at: tuple[np.ndarray, ...]) -> np.ndarray:
        """How large the errors of some elements may be, float64; 0 for exact values."""
        if self.scale is None or self.limit is None:
            return np.zeros(len(at[0]) if at else 1)
        return self.limit * self.scale[at].astype(np.float64)


@dataclass(frozen=True)
class Judged:
    """An op and its results as they were compared."""

    op_name: str
    target: Target
    inputs: Sequence[TensorDesc]
    outputs: Sequence[TensorDesc]
    params: Mapping[str, str]
    golden: Sequence[np.ndarray]
    got: Sequence[np.ndarray]
    operands: Operands | None

    def meant(self) -> Judged:
        """The same, with golden, results and operands as the verdict has them."""
        golden, operands = meant(self.op_name, self.params, self.target, self.golden, self.operands)
        got, _ = as_documented(self.op_name, self.target, golden, self.got, operands)
        return replace(self, golden=golden, got=got, operands=operands)

    def steps(self, index: int) -> Steps | None:
        """The steps of one result; None if it is held to exact values."""
        op_name = judged_as(self.op_name, (desc.data_type for desc in self.inputs))
        kind = family(op_name, self.operands)
        ulp = self.target.error_bound(op_name) if self.target.error_bound else None
        inner = inner_size(kind, self.inputs, self.outputs, self.params)
        return steps_of(
            self.target,
            kind,
            self.outputs[index].data_type,
            inner,
            op_name=op_name,
            body=self.params.get("body"),
            ulp=ulp,
            operand_types=operand_types(kind, self.inputs),
        )

    def scale(self, index: int, steps: Steps) -> Scale:
        """The scale of one result, its operands evaluated as far as that is possible."""
        operands = self.operands
        if operands is None:
            return Scale(steps)
        try:
            terms = operands.term_sizes[index] if operands.sums else None
            within = operands.within()
            moved = (
                operands.moved(steps, self.golden)[index]
                if steps.by_operands and (within is None or steps.stored)
                else None
            )
        except NotEvaluatedError:
            return Scale(steps)
        return Scale(steps, _flat(terms), _flat(moved), None if within is None else _flat(within[index]))


def _flat(sizes: np.ndarray | None) -> np.ndarray | None:
    return None if sizes is None else np.ravel(sizes)


def element_errors(judged: Judged, index: int, check: ResultCheck) -> ElementErrors:
    """The errors of one result that has its golden's shape and type. May raise what XLA raises on the op."""
    golden, got = judged.golden[index], judged.got[index]
    steps = judged.steps(index)
    if steps is None or golden.dtype.kind in "iub" or golden.size == 0:
        return ElementErrors(golden, got, _unequal(golden, got), None, None, None, steps)
    scale = judged.scale(index, steps)
    parts = 1
    g, d = golden, got
    if golden.dtype.kind == "c":
        parts, real = 2, np.float32 if golden.dtype == np.complex64 else np.float64
        g, d = (np.ascontiguousarray(array).view(real) for array in (golden, got))
        terms, moved = (None if each is None else np.repeat(each, 2) for each in (scale.terms, scale.moved))
        scale = Scale(steps, terms=terms, moved=moved)
    limit = check.z_limit or Scores(scale, golden.shape, count=golden.size).limit
    z, sizes = _scored(np.ravel(g), np.ravel(d), scale, (golden.shape[-1] if golden.ndim else 1) * parts)
    if parts == 2:
        both = z.reshape(-1, 2)
        z = np.where(np.abs(both[:, 0]) >= np.abs(both[:, 1]), both[:, 0], both[:, 1])
        sizes = sizes.reshape(-1, 2).max(axis=1)
    z, sizes = z.reshape(golden.shape), sizes.reshape(golden.shape)
    wrong = np.abs(z) > limit
    if check.question == "rounding" and judged.operands is not None:
        wrong |= _farther(judged.operands.inputs[0], golden, got)
    return ElementErrors(golden, got, wrong, z, sizes, limit, steps)


def _unequal(golden: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Where two arrays differ; NaN is equal to NaN."""
    with np.errstate(invalid="ignore"):
        wrong = np.asarray(golden != got)
        if golden.dtype.kind in "fcV" and "int" not in golden.dtype.name:
            wrong &= ~(np.isnan(golden.astype(np.complex128)) & np.isnan(got.astype(np.complex128)))
    return wrong


def _farther(x: np.ndarray, golden: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Where a conversion gave a number that is farther from its operand than the golden is."""
    with np.errstate(invalid="ignore", over="ignore"):
        source, right, device = (array.astype(np.float64) for array in (x, golden, got))
        return np.abs(source - device) > np.abs(source - right)


def _scored(g: np.ndarray, d: np.ndarray, scale: Scale, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """z and scale of each element of two flat arrays, float32."""
    z, sizes = np.zeros(g.size, np.float32), np.zeros(g.size, np.float32)
    with np.errstate(all="ignore"):
        for start, end in chunks(g.size, columns, _CHUNK):
            golden, got = g[start:end].astype(np.float64), d[start:end].astype(np.float64)
            finite = np.isfinite(golden) & np.isfinite(got)
            clean = np.where(np.isfinite(golden), golden, 0.0)
            size = scale.of(slice(start, end), clean, columns)
            error = got - golden
            error[(got == 0) & (np.abs(golden) < TINY)] = 0.0
            part = np.where(error == 0, 0.0, error / size)
            alike = (np.isnan(golden) & np.isnan(got)) | (golden == got)
            part = np.where(finite, part, np.where(alike, 0.0, np.where(got < golden, -WORST, WORST)))
            z[start:end] = np.clip(np.nan_to_num(part, nan=WORST, posinf=WORST, neginf=-WORST), -WORST, WORST)
            sizes[start:end] = np.where(np.isfinite(size), size, 0.0)
    return z, sizes
