"""Hypotheses about how values were rounded: toward zero, away from it, to a narrower format, by blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscope.base import number_formats
from opscope.base.number_formats import SHARED
from opscope.harness.explain.hypotheses.evidence import FITS, Evidence, of_array
from opscope.harness.prepare.operand_sizes import is_float

LEAST = 32
"""Unequal elements from which a direction of rounding is no chance: 2^-32."""
FORMATS = {7: "bfloat16", 10: "TF32 or float16", 3: "float8"}
"""Bits behind the leading one -> the format that keeps so many."""
BLOCKS = {row.fraction_bits: row.rounds_as for row in number_formats.FORMATS.values() if row.kind == "block"}
"""Bits that a block format keeps behind the leading one of the block's largest value -> its name."""
HALF = (0.3, 0.7)
"""Mean of what truncation takes, in units of the last bit, whatever the values are."""


def _bits_of(dtype: np.dtype) -> int:
    """Bits behind the leading one that a float type has."""
    if dtype.kind == "V":
        import ml_dtypes

        return int(ml_dtypes.finfo(dtype).nmant)
    return int(np.finfo(dtype).nmant)


def _grid(values: np.ndarray, bits: int) -> np.ndarray:
    """The distance of numbers with so many bits, at each value."""
    return np.ldexp(1.0, np.frexp(values)[1] - 1 - bits)


def _used_bits(values: np.ndarray, most: int) -> int:
    """How many bits behind the leading one the values use."""
    if not values.size:
        return most
    for bits in range(1, most):
        scaled = values / _grid(values, bits)
        if np.count_nonzero(scaled == np.rint(scaled)) >= 0.999 * values.size:
            return bits
    return most


def _floats(evidence: Evidence) -> tuple[np.ndarray, np.ndarray, np.ndarray, int] | None:
    """A sample of the finite elements that are not zero: golden, result, limit; and the bits of their type."""
    if not is_float(evidence.golden) or evidence.golden.dtype.kind == "c":
        return None
    at = evidence.all_at
    golden, got, allowed = evidence.golden_values(at), evidence.got_values(at), evidence.allowed(at)
    use = np.isfinite(golden) & np.isfinite(got) & (golden != 0) & (got != 0)
    return golden[use], got[use], allowed[use], _bits_of(evidence.golden.dtype)


def truncated(evidence: Evidence) -> str | None:
    """The result was cut toward zero instead of rounded to nearest."""
    return _one_sided(evidence, -1, "toward zero")


def rounded_away(evidence: Evidence) -> str | None:
    """The result was rounded away from zero instead of to nearest."""
    return _one_sided(evidence, 1, "away from zero")


def _one_sided(evidence: Evidence, direction: int, words: str) -> str | None:
    """A rounding in one direction: no value moves by more than its last bit, all by half of it on the mean."""
    sample = _floats(evidence)
    if sample is None:
        return None
    golden, got, _, most = sample
    lost = direction * (np.abs(got) - np.abs(golden))
    unequal = np.count_nonzero(lost)
    if unequal < LEAST or np.count_nonzero(lost > 0) < FITS * unequal:
        return None
    bits = _used_bits(got, most)
    steps = lost / _grid(golden, bits)
    # Of the type's own numbers the golden is rounded to nearest: half of the values lose one, the others none.
    if np.count_nonzero(steps <= 1 + 2.0**-10) < FITS * steps.size or not HALF[0] <= steps.mean() <= HALF[1]:
        return None
    name = f" ({FORMATS[bits]})" if bits in FORMATS else ""
    share, side = np.count_nonzero(lost > 0) / unequal, "small" if direction < 0 else "large"
    return (
        f"rounded {words} to {bits} bits behind the leading one{name}: {share:.1%} of the values that differ are too "
        f"{side}, none by more than the last bit"
    )


def narrower(evidence: Evidence) -> str | None:
    """The result was rounded to nearest in a narrower format than its type."""
    sample = _floats(evidence)
    if sample is None:
        return None
    golden, got, allowed, most = sample
    bits = _used_bits(got, most)
    if got.size < LEAST or bits >= most or (evidence.errors.steps is not None and evidence.errors.steps.block):
        return None
    off = np.abs(got - golden)
    within = np.count_nonzero(off <= 0.5 * _grid(golden, bits) * (1 + 2.0**-10) + 0.5 * allowed)
    if within < FITS * got.size or _used_bits(golden, most) <= bits:
        return None
    name = f", as in {FORMATS[bits]}" if bits in FORMATS else ""
    return f"rounded to {bits} bits behind the leading one{name}: no value is off by more than half of the last"


def block_float(evidence: Evidence) -> str | None:
    """Result or operands were stored in blocks of 16 that keep some bits of the largest: a small value beside a large
    one is lost."""
    if not evidence.wrong_count or not is_float(evidence.golden) or evidence.golden.dtype.kind == "c":
        return None
    asked = evidence.judged.target.float_format or ""
    # What keeps fewer bits loses no less: the format that was asked for is looked at first.
    for bits, name in sorted(BLOCKS.items(), key=lambda each: not asked.startswith(each[1])):
        for what, predicted, beside in _stored_in_blocks(evidence, bits):
            if predicted is not None and evidence.explains(of_array(predicted)):
                large, small = beside
                ratio = int(np.floor(np.log2(large / small)))
                return (
                    f"{what} in blocks of {SHARED} that keep {bits} bits of the largest ({name}): "
                    f"{small:.4g} stands beside {large:.4g}, 2^{ratio} times as large"
                )
    return None


def _stored_in_blocks(evidence: Evidence, bits: int) -> Iterator[tuple[str, np.ndarray | None, tuple[float, float]]]:
    """What would have come of storing the result, or operands, in blocks; and the neighbours that differ most."""
    golden = evidence.golden
    for cut in (False, True):
        yield "the result was stored", in_blocks(golden, bits, cut), _widest(golden)
    floats = [number for number, x in enumerate(evidence.inputs) if is_float(x) and x.dtype.kind != "c" and x.ndim]
    if not floats:
        return
    widest = max((_widest(evidence.inputs[number]) for number in floats), key=lambda pair: pair[0] / pair[1])
    for cut in (False, True):
        stored = [in_blocks(x, bits, cut) if n in floats else x for n, x in enumerate(evidence.inputs)]
        result = evidence.run(stored)
        yield "its operands were stored", result, widest
        if result is not None:
            yield "operands and result were stored", in_blocks(result, bits, cut), widest


def in_blocks(x: np.ndarray, bits: int, cut: bool) -> np.ndarray:
    """The values rounded (or cut) to so many bits behind the leading one of the largest of each 16 of a row."""
    if not x.ndim or not x.size:
        return x
    wide = np.nan_to_num(x.astype(np.float64))
    columns = x.shape[-1]
    largest = np.maximum.reduceat(np.abs(wide), np.arange(0, columns, SHARED), axis=-1)
    largest = np.repeat(largest, SHARED, axis=-1)[..., :columns]
    step = np.where(largest > 0, _grid(np.where(largest > 0, largest, 1.0), bits), 1.0)
    most = 2.0 ** (bits + 1) - 1
    scaled = np.trunc(wide / step) if cut else np.sign(wide) * np.floor(np.abs(wide) / step + 0.5)
    return (np.clip(scaled, -most, most) * step).astype(x.dtype)


def _widest(x: np.ndarray) -> tuple[float, float]:
    """The largest of a block and the smallest beside it that is not zero, of the block where they differ most."""
    size = np.abs(np.nan_to_num(x.astype(np.float64))).reshape(-1, x.shape[-1] if x.ndim else 1)
    columns = np.arange(0, size.shape[1], SHARED)
    largest = np.maximum.reduceat(size, columns, axis=1)
    least = np.minimum.reduceat(np.where(size > 0, size, np.inf), columns, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.unravel_index(int(np.argmax(np.where(np.isfinite(least), largest / least, 0.0))), largest.shape)
    ends = float(largest[at]), float(least[at])
    return ends if 0 < ends[1] < np.inf else (1.0, 1.0)
