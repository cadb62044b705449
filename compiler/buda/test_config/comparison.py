"""Compares results with a golden as a netlist's `comparison-config` asks (tt-budabackend: verif/verif_comparison.hpp).

`AllCloseHw` looks at each 32x32 tile alone: enough of its elements have to be close, and its correlation has to be
high. One wrong tile among a thousand fails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

TILE = 32
TYPES = ("Exact", "AllClose", "AllCloseHw")
LARGEST = float(np.finfo(np.float32).max)
"""What infinity counts as in a correlation."""
SMALL_DEVIATION = 1e-5
"""Standard deviation that stands for 0 in a correlation."""


@dataclass(frozen=True)
class Comparison:
    """A rule of `comparison-config`; the defaults are those of tt-budabackend (common/model/constants.hpp)."""

    type: str = "AllCloseHw"
    rtol: float = 1e-4
    """Of the larger of the two numbers."""
    atol: float = 1e-3
    check_pct: float = 1.0
    """Share of a tile's elements that have to be close."""
    check_pcc: float = 0.999
    """Least correlation of a tile; 0: any."""
    rows: tuple[int, int] = (1, TILE)
    """First and last row of each tile that are compared, from 1."""
    cols: tuple[int, int] = (1, TILE)


def differences(expected: np.ndarray, got: np.ndarray, rule: Comparison) -> str:
    """Says why a result fails a rule, in one line; empty if it passes.

    Both are (z, rows, columns) in whole tiles. NaN is only close to NaN, and infinity to infinity or to a number
    that is nearly as large.
    """
    if expected.shape != got.shape:
        return f"expected shape {expected.shape}, got {got.shape}"
    golden, seen = (_tiles(value, rule) for value in (expected, got))
    if rule.type == "Exact":
        same = (golden == seen).all(axis=1)
        return "" if same.all() else f"{_place(expected, ~same)}: expected equal values, got others"
    close = _close(golden, seen, rule)
    share = close.mean(axis=1)
    few = share < rule.check_pct
    if few.any():
        at = int(np.argmin(share))
        return (
            f"{_place(expected, few)}: expected {rule.check_pct} of the elements close, got {share[at]:.4f}; "
            f"largest difference {_largest_difference(golden[at], seen[at])}"
        )
    if rule.type == "AllClose" or rule.check_pcc == 0:
        return ""
    pcc = correlations(golden, seen, rule)
    low = np.where(_constant(golden), ~close.all(axis=1), ~(pcc >= rule.check_pcc))
    return f"{_place(expected, low)}: expected a PCC of {rule.check_pcc}, got {np.nanmin(pcc):.5f}" if low.any() else ""


def stable_difference(expected: np.ndarray, rounded: np.ndarray, got: np.ndarray, rule: Comparison) -> str:
    """Says why a result fails what of a rule the golden passes whose ops' results are `rounded` to float32.

    That is all of it, all but the correlation, or nothing: the line is empty then. Exact is asked in any case.
    """
    for kept in (rule, replace(rule, check_pcc=0.0)):
        if rule.type == "Exact" or not differences(expected, rounded, kept):
            return differences(expected, got, kept)
    return ""


def constant_tiles(expected: np.ndarray, rule: Comparison) -> int:
    """How many tiles of a golden are one number, up to float32's rounding: their correlation says nothing of a result,
    so that all their elements have to be close instead. 0 for a rule that asks for no correlation."""
    asks = rule.type == "AllCloseHw" and rule.check_pcc != 0
    return int(_constant(_tiles(expected, rule)).sum()) if asks else 0


def _constant(golden: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.ptp(golden, axis=1) <= np.finfo(np.float32).eps * np.abs(golden).max(axis=1)


def correlations(golden: np.ndarray, seen: np.ndarray, rule: Comparison) -> np.ndarray:
    """Returns Pearson's correlation of each row; 1 where both are constant and their means are close."""
    one, two = (np.clip(np.where(np.isinf(v), np.sign(v) * LARGEST, v), -LARGEST, LARGEST) for v in (golden, seen))
    means = one.mean(axis=1), two.mean(axis=1)
    spread = [np.ptp(value, axis=1) == 0 for value in (one, two)]
    one, two = one - means[0][:, None], two - means[1][:, None]
    deviations = [np.sqrt((value * value).mean(axis=1)) for value in (one, two)]
    one_by_two = np.prod([np.where(value == 0, SMALL_DEVIATION, value) for value in deviations], axis=0)
    pcc = (one * two).mean(axis=1) / one_by_two
    equal = spread[0] & spread[1] & (np.abs(means[0] - means[1]) <= rule.atol + rule.rtol * np.abs(means[1]))
    return np.where(equal, 1.0, pcc)


def _tiles(value: np.ndarray, rule: Comparison) -> np.ndarray:
    """Returns one row per tile, with the elements that a rule compares, in float64."""
    z, rows, cols = value.shape
    tiles = value.reshape(z, rows // TILE, TILE, cols // TILE, TILE).transpose(0, 1, 3, 2, 4)
    (top, bottom), (left, right) = rule.rows, rule.cols
    kept = tiles[:, :, :, top - 1 : bottom, left - 1 : right]
    return kept.reshape(z * (rows // TILE) * (cols // TILE), -1).astype(np.float64)


def _close(golden: np.ndarray, seen: np.ndarray, rule: Comparison) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        bound = rule.atol + rule.rtol * np.maximum(np.abs(golden), np.abs(seen))
        close = np.abs(golden - seen) <= bound
        large = (np.abs(golden) >= 2.0**126) & (np.abs(seen) >= 2.0**126) & (np.sign(golden) == np.sign(seen))
    infinite = np.isinf(golden) | np.isinf(seen)
    return np.where(infinite, large, close) | (np.isnan(golden) & np.isnan(seen))


def _largest_difference(golden: np.ndarray, seen: np.ndarray) -> str:
    with np.errstate(invalid="ignore"):
        apart = np.nan_to_num(np.abs(golden - seen), nan=np.inf)
    at = int(np.argmax(apart))
    return f"{apart[at]:.4g} (expected {golden[at]:.6g}, got {seen[at]:.6g})"


def _place(value: np.ndarray, failed: np.ndarray) -> str:
    _, rows, cols = value.shape
    z, rest = divmod(int(np.argmax(failed)), (rows // TILE) * (cols // TILE))
    r, c = divmod(rest, cols // TILE)
    return f"{int(failed.sum())} of {failed.size} tiles, first z {z}, row {r}, column {c}"


__all__ = ["TYPES", "Comparison", "differences"]
