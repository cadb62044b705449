"""How near results are to those of a reference: Pearson's correlation, as TT-Buda compares them."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.tensor import array_of


def check_correlation(what: str, got: Any, wanted: Any, least: float, reference: str = "XLA") -> None:
    """Raises PyBudaError if a result correlates less than that with the reference's; equal ones and numbers pass."""
    one, other = (np.ravel(array_of(value)).astype(np.float64) for value in (got, wanted))
    if one.size != other.size:
        raise PyBudaError(f"verify: expected {what} of {other.size} elements, as {reference} has, got {one.size}")
    if one.size < 2 or np.array_equal(one, other):
        return
    correlation = float(np.corrcoef(one, other)[0, 1])
    if not correlation >= least:
        raise PyBudaError(f"verify: expected {what} to correlate with {reference}'s by {least}, got {correlation:.6f}")
