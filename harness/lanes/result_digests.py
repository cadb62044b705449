"""The digest of each result that was compared, so that a later run sees whether a bit of it is another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.base.stored import digest
from opscope.harness.record.records import ResultCheck


def with_digests(checks: Sequence[ResultCheck], outputs: Sequence[np.ndarray]) -> list[ResultCheck]:
    """The checks of an op's results with the digests of these; one that did not come back has none."""
    counted = [of(array) for array in outputs[: len(checks)]]
    counted += [""] * (len(checks) - len(counted))
    return [check.model_copy(update={"digest": each}) for check, each in zip(checks, counted, strict=True)]


def of(array: np.ndarray) -> str:
    """The digest of an array's type, shape and bytes; 32 hex digits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return digest(flat.view(np.uint8).data, f"{array.dtype.name}{list(array.shape)}")
