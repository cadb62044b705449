"""Other values for a failing op's inputs: which of them pass tells whether values or shapes are to blame.

Integers and booleans stay, since they may be indices, sizes or predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from opscope.harness.prepare import input_distributions
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.record.records import TensorDesc
from opscope.models.seeding import draw

SEED = 7919
"""Of random values; not the default of a run, whose random values may be the ones that fail."""
OUTLIER = 8.0
"""Values that are larger than so many times the median are outliers."""
RANDOM, NO_OUTLIERS, SMALL = "random values", "no outliers", "scaled to at most 1"
ORDINARY = (RANDOM, NO_OUTLIERS, SMALL)
"""Kinds of values that any op should compute: if one passes, the op's own values are to blame. All ones and another
order are no such kind: a result that is transposed is right for ones."""
Change = Callable[[np.ndarray], np.ndarray]


def variants(
    op_name: str, descs: Sequence[TensorDesc], params: dict[str, str], inputs: Sequence[np.ndarray]
) -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """Kinds of values and the inputs that have them; none that are as they were."""
    if not any(is_float(x) and x.size for x in inputs):
        return
    kinds: list[tuple[str, tuple[np.ndarray, ...]]] = [
        (RANDOM, _random(op_name, descs, params, inputs)),
        (NO_OUTLIERS, _changed(inputs, without_outliers)),
        (SMALL, _changed(inputs, _scaled)),
        ("all ones", _changed(inputs, np.ones_like)),
        ("in another order", _changed(inputs, _shuffled)),
    ]
    for name, values in kinds:
        if any(a.tobytes() != b.tobytes() for a, b in zip(values, inputs, strict=True)):
            yield name, values


def _changed(inputs: Sequence[np.ndarray], change: Change) -> tuple[np.ndarray, ...]:
    return tuple(change(x) if is_float(x) and x.size else x for x in inputs)


def _random(
    op_name: str, descs: Sequence[TensorDesc], params: dict[str, str], inputs: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Seeded values in the op's domain."""
    drawn = []
    for index, x in enumerate(inputs):
        if not is_float(x):
            drawn.append(x)
            continue
        try:
            distribution = input_distributions.distribution_of(op_name, index, descs, params)
        except (IndexError, ValueError):  # constants inside the module shift the operands
            distribution = input_distributions.default_distribution(descs[index].data_type)
        drawn.append(draw(distribution, x.shape, x.dtype, SEED, index))
    return tuple(drawn)


def _sizes(x: np.ndarray) -> np.ndarray:
    size = np.abs(x).astype(np.float64) if x.dtype.kind != "V" else np.abs(x.astype(np.float64))
    return np.where(np.isfinite(size), size, np.inf)


def without_outliers(x: np.ndarray) -> np.ndarray:
    """The values, those that are much larger than the median cut to a size that is not; infinities and NaN too."""
    size = _sizes(x)
    finite = size[np.isfinite(size) & (size > 0)]
    return clipped(x, OUTLIER * float(np.median(finite))) if finite.size else np.zeros_like(x)


def clipped(x: np.ndarray, most: float) -> np.ndarray:
    """The values, cut to a size of at most `most`."""
    if x.dtype.kind == "c":
        size = np.maximum(np.abs(x), most)
        return (np.nan_to_num(x) * (most / size)).astype(x.dtype)
    return np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0), -most, most).astype(x.dtype)


def _scaled(x: np.ndarray) -> np.ndarray:
    size = _sizes(x)
    finite = size[np.isfinite(size)]
    most = float(finite.max(initial=0.0))
    return (
        x
        if most <= 1
        else (clipped(x, most).astype(np.complex128 if x.dtype.kind == "c" else np.float64) / most).astype(x.dtype)
    )


def _shuffled(x: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).permutation(x.reshape(-1)).reshape(x.shape)


def exponents(inputs: Sequence[np.ndarray]) -> tuple[int, int] | None:
    """The exponents of 2 between which the largest value and the median of all floats lie; None for no floats."""
    floats = [size for x in inputs if is_float(x) for size in (_sizes(x),)]
    values = np.concatenate([size[np.isfinite(size) & (size > 0)] for size in floats]) if floats else np.zeros(0)
    if not values.size:
        return None
    return int(np.floor(np.log2(np.median(values)))), int(np.ceil(np.log2(values.max())))


def up_to(inputs: Sequence[np.ndarray], exponent: int) -> tuple[np.ndarray, ...]:
    """The inputs with no value larger than 2^exponent."""
    return _changed(inputs, lambda x: clipped(x, 2.0**exponent))
