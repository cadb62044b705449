"""Whether results agree, by the scale of a whole model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.harness.record.records import WHOLE_MODEL, TensorDesc
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.target import HOST


def first_wrong(
    expected: Sequence[np.ndarray], got: Sequence[np.ndarray], outputs: Sequence[TensorDesc]
) -> tuple[int | None, str, float | None]:
    """Index of the first result that differs, how, and its largest z; where none does, None, "" and the largest z."""
    if len(expected) != len(got):
        return None, f"expected {len(expected)} results, got {len(got)}", None
    largest: float | None = None
    for index, (want, have, desc) in enumerate(zip(expected, got, outputs, strict=True)):
        if _kind(want.dtype) != _kind(have.dtype):
            return index, f"element type: expected {want.dtype.name}, got {have.dtype.name}", None
        # A type may be narrower in the module: JAX has no 64 bits, and bfloat16 comes as float32.
        with np.errstate(over="ignore", invalid="ignore"):
            want = want.astype(have.dtype)
        (check,) = compare([want], [have], WHOLE_MODEL, HOST, outputs=[desc])
        if not check.passed:
            return index, check.reason, check.z_max
        largest = max(largest or 0.0, check.z_max) if check.z_max is not None else largest
    return None, "", largest


def _kind(dtype: np.dtype) -> str:
    """`integer`, `float`, `complex` or `bool`."""
    if dtype.kind in "iu" or (dtype.kind == "V" and "int" in dtype.name):
        return "integer"
    return {"b": "bool", "c": "complex"}.get(dtype.kind, "float")
