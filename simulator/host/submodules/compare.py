"""`pybuda.op.eval`: how TT-Buda's tests compare a result with a golden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opscope.simulator.host.settings.verify_config import RELATIVE_ATOL, VerifyConfig
from opscope.simulator.host.tensor import array_of


def calculate_pcc(a: Any, b: Any) -> float:
    """Returns Pearson's correlation of two tensors; equal ones and constant ones have 1, one of zeros alone has 0.

    Values that are no finite numbers count as 0; if all are NaN, 1 where both are so and 0 where one is.
    """
    one, other = (np.ravel(array_of(value)).astype(np.float64) for value in (a, b))
    empty = [bool(np.isnan(values).all()) for values in (one, other)]
    if any(empty):
        return float(all(empty))
    if one.any() != other.any():
        return 0.0
    one, other = (np.where(np.isfinite(values), values, 0.0) for values in (one, other))
    if np.array_equal(one, other):
        return 1.0
    with np.errstate(all="ignore"):
        correlation = float(np.corrcoef(one, other)[0, 1])
    return 1.0 if np.isnan(correlation) else correlation


def compare_tensor_to_golden(
    name: str,
    golden: Any,
    calculated: Any,
    is_buda: bool = False,
    rtol: Any = None,
    atol: Any = None,
    pcc: float | None = None,
    warning_only: bool = False,
    relative_atol: float | None = None,
    verify_cfg: VerifyConfig | None = None,
) -> bool:
    """Returns whether a result is that of a golden, by TT-Buda's limits: `atol` and `rtol`, or a correlation of `pcc`.

    Without `atol` it is a tenth of the largest value (`relative_atol`). Limits may be dictionaries by type. A result
    of tiles is cut to the golden's shape where `is_buda`. With `warning_only` every result passes.
    """
    wanted, got = array_of(golden), array_of(calculated)
    while got.ndim > wanted.ndim and got.shape[0] == 1:
        got = got[0]
    while wanted.ndim > got.ndim and wanted.shape[0] == 1:
        wanted = wanted[0]
    if is_buda and got.ndim == wanted.ndim:
        got = got[tuple(slice(size) for size in wanted.shape)]
    if wanted.shape != got.shape:
        return warning_only
    if wanted.dtype == np.bool_:
        return warning_only or bool(np.array_equal(wanted, got.astype(np.bool_)))
    kind = getattr(golden, "dtype", wanted.dtype)
    config = verify_cfg or VerifyConfig.disabled()
    relative = relative_atol if relative_atol is not None else config.relative_atol if verify_cfg else RELATIVE_ATOL
    exact = wanted.astype(np.float64)
    largest = float(np.nanmax(np.abs(exact), initial=0.0)) if not np.isnan(exact).all() else 0.0
    within = _limit(atol, config.atol, kind)
    share = _limit(rtol, config.rtol, kind)
    least = pcc if pcc is not None else config.pcc
    result = got.astype(np.float64)
    right = np.allclose(
        result,
        exact,
        rtol=share if share is not None else 0.0,
        atol=within if within is not None else largest * relative,
        equal_nan=True,
    )
    right = right and (config.golden_compare_callback is None or config.golden_compare_callback(golden, calculated))
    if least is not None and wanted.size > 1:
        right = right or calculate_pcc(exact, result) >= least
    return bool(right) or warning_only


def _limit(given: Any, configured: Any, kind: Any) -> float | None:
    """Returns a limit, or the entry of a dictionary by type, or that of the configuration; None if there is none."""
    for limits in (given, configured):
        entries = limits.items() if isinstance(limits, Mapping) else [(kind, limits)]
        for key, value in entries:
            if value is not None and _name(key) == _name(kind):
                return value
    return None


def _name(kind: Any) -> str:
    """Returns the name of a type of NumPy, JAX, TensorFlow or PyTorch."""
    return getattr(kind, "name", None) or getattr(kind, "__name__", None) or str(kind).rpartition(".")[2]
