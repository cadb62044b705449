"""How near results are to those of a reference: Pearson's correlation, as TT-Buda compares them."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.tensor import array_of


def check_correlation(what: str, got: Any, wanted: Any, least: float, reference: str = "XLA") -> None:
    """Raises PyBudaError if a result correlates less than that with the reference's; equal ones and numbers pass.

    Where all numbers of one of them are the same, nothing can correlate: they may be 1 - `least` apart, as a share.
    """
    one, other = (np.ravel(array_of(value)).astype(np.float64) for value in (got, wanted))
    if one.size != other.size:
        raise PyBudaError(f"verify: expected {what} of {other.size} elements, as {reference} has, got {one.size}")
    if one.size < 2 or np.array_equal(one, other):
        return
    if 0 in (np.ptp(one), np.ptp(other)):
        if not np.allclose(one, other, rtol=1 - least, atol=0):
            apart = float(np.max(np.abs(one - other)))
            raise PyBudaError(
                f"verify: expected {what}, of which nothing varies, to be {reference}'s within {1 - least:.2g}, got "
                f"{apart:.2g} off"
            )
        return
    correlation = float(np.corrcoef(one, other)[0, 1])
    if not correlation >= least:
        raise PyBudaError(f"verify: expected {what} to correlate with {reference}'s by {least}, got {correlation:.6f}")
