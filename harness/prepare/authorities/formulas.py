"""NumPy as an authority: an op's formula in double precision, or wider for ops of f64, rounded once to its type; on
integers in their own arithmetic."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from opscope.base.op_families import TO_THE_LAST_BIT
from opscope.harness.formulas import whole_numbers
from opscope.harness.formulas.elementwise import FORMULAS, operands_of
from opscope.harness.formulas.nearest import rounded
from opscope.harness.formulas.whole_numbers import INTEGERS, OPERANDS, is_whole
from opscope.harness.prepare.program import SingleOp
from opscope.harness.record.element_types import NUMPY_NAMES, numpy_dtype
from opscope.harness.record.records import OpRow

BY = "NumPy in float64"
FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
MOST_STEPS = 1 << 24
"""Elements, or products, above which an operand's copy takes more than 128 MiB, or a formula more than seconds."""


def has_formula(row: OpRow | SingleOp) -> bool:
    """Whether an op has a formula here. One whose module holds some operands itself has none."""
    if of_integers(row):
        return True
    kinds = {desc.data_type for desc in (*row.inputs, *row.outputs)}
    if len(row.outputs) != 1 or len(kinds) != 1 or not kinds <= FLOATS:
        return False
    if row.op_name == "stablehlo.dot_general":
        return len(row.inputs) == 2
    formula = FORMULAS.get(row.op_name)
    return formula is not None and len(row.inputs) == operands_of(formula)


def of_integers(row: OpRow | SingleOp) -> bool:
    """Whether an op of one result is computed on integers or truth values alone."""
    kinds = {desc.data_type for desc in (*row.inputs, *row.outputs)}
    known = row.op_name.removeprefix("stablehlo.") in INTEGERS and row.op_name.startswith("stablehlo.")
    if not known or len(row.outputs) != 1 or not kinds <= NUMPY_NAMES.keys():
        return False
    name = row.op_name.removeprefix("stablehlo.")
    return len(row.inputs) == OPERANDS.get(name, 2) and all(is_whole(np.empty(0, numpy_dtype(kind))) for kind in kinds)


def steps(row: OpRow | SingleOp) -> int:
    """How many elements or products a formula takes."""
    size = int(np.prod(row.outputs[0].shape, dtype=np.int64))
    if row.op_name != "stablehlo.dot_general":
        return size
    contracting = _dims(row, "lhs_contracting_dimensions")
    return size * int(np.prod([row.inputs[0].shape[axis] for axis in contracting], dtype=np.int64))


def computed(row: OpRow | SingleOp, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of an op that has a formula."""
    if of_integers(row):
        name, kind = row.op_name.removeprefix("stablehlo."), numpy_dtype(row.outputs[0].data_type)
        with np.errstate(all="ignore"):
            return [whole_numbers.of_integers(name, inputs, kind)[0].reshape(row.outputs[0].shape)]
    # What IEEE 754 rounds to the last bit would be rounded twice on its way through the machine's widest type.
    wider = row.outputs[0].data_type == "f64" and row.op_name not in TO_THE_LAST_BIT
    wide = np.longdouble if wider else np.float64
    operands = [array.astype(wide) for array in inputs]
    with np.errstate(all="ignore"):
        result = (
            _product(row, *operands) if row.op_name == "stablehlo.dot_general" else FORMULAS[row.op_name](*operands)
        )
        return [rounded(np.asarray(result), numpy_dtype(row.outputs[0].data_type)).reshape(row.outputs[0].shape)]


def _product(row: OpRow | SingleOp, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`dot_general`: batch dimensions first, then the free ones of both operands."""
    batch_left, batch_right = _dims(row, "lhs_batching_dimensions"), _dims(row, "rhs_batching_dimensions")
    sum_left, sum_right = _dims(row, "lhs_contracting_dimensions"), _dims(row, "rhs_contracting_dimensions")
    names = iter(range(left.ndim + right.ndim))
    axes_left: dict[int, int] = {axis: next(names) for axis in range(left.ndim)}
    pairs = [*zip(batch_right, batch_left, strict=True), *zip(sum_right, sum_left, strict=True)]
    axes_right = {axis: axes_left[other] for axis, other in pairs}
    free_right = [axis for axis in range(right.ndim) if axis not in axes_right]
    axes_right |= {axis: next(names) for axis in free_right}
    free_left = [axis for axis in range(left.ndim) if axis not in (*batch_left, *sum_left)]
    out = [axes_left[axis] for axis in (*batch_left, *free_left)] + [axes_right[axis] for axis in free_right]
    places = ([axes_left[axis] for axis in range(left.ndim)], [axes_right[axis] for axis in range(right.ndim)])
    return np.einsum(left, places[0], right, places[1], out, optimize=left.dtype == np.float64)


def _dims(row: OpRow | SingleOp, name: str) -> list[int]:
    """Dimensions in the attribute of a product; none where it does not name them."""
    match = re.search(rf"{name} = \[([\d, ]*)\]", row.op_params.get("dot_dimension_numbers", ""))
    return [int(word) for word in match[1].split(",") if word.strip()] if match else []
