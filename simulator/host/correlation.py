"""How near results are to those of a reference: Pearson's correlation, as TT-Buda compares them."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.verify_config import VerifyConfig
from opscope.simulator.host.submodules.compare import compare_tensor_to_golden
from opscope.simulator.host.tensor import array_of


def check_correlation(what: str, got: Any, wanted: Any, config: VerifyConfig, reference: str = "XLA") -> None:
    """Raises PyBudaError if a result correlates less with the reference's than `config` asks, 0.99 without its `pcc`.

    Equal ones pass, and single numbers, and what is within the tolerances that `config` states, as in TT-Buda. Where
    all numbers of one of them are the same, nothing can correlate: they may be 1 - `pcc` apart, as a share. What is no
    finite number has to be the same in both.
    """
    one, other = (np.ravel(array_of(value)).astype(np.float64) for value in (got, wanted))
    if one.size != other.size:
        raise PyBudaError(f"verify: expected {what} of {other.size} elements, as {reference} has, got {one.size}")
    finite = np.isfinite(one) & np.isfinite(other)
    strange = int((~finite & (one != other) & ~(np.isnan(one) & np.isnan(other))).sum())
    if strange and one.size > 1:
        raise PyBudaError(
            f"verify: expected {what} to be finite where {reference}'s is, got {int(np.isnan(one).sum())} NaN and "
            f"{int(np.isinf(one).sum())} infinite of {one.size} elements, {strange} of them otherwise in {reference}'s"
        )
    one, other = one[finite], other[finite]
    if one.size < 2 or np.array_equal(one, other):
        return
    if config.states_tolerances and compare_tensor_to_golden(what, wanted, got, verify_cfg=config):
        return
    least = config.least
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
