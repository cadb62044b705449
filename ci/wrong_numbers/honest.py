"""Ninety-four honest results: on the host by another way to compute what the op says, on the card as the card computes.

Sums in another order or in another precision, functions by another library, ties and zeros that may go either way.
"""

from __future__ import annotations

import numpy as np

from ci.wrong_numbers.cases import COMPOSED
from ci.wrong_numbers.ops import Changed, Ran, of_each
from ci.wrong_numbers.wrong import wide


def nearest(ran: Ran) -> np.ndarray:
    """In double precision, rounded once."""
    return wide(ran, ran.exact)


def backwards(ran: Ran) -> np.ndarray:
    """A sum or a product with its terms added one by one, in float32, from the last to the first."""
    first, *rest = (x if x.dtype == np.float64 else x.astype(np.float32) for x in ran.inputs)
    if rest:
        total = np.zeros(ran.golden.shape, first.dtype)
        for k in reversed(range(first.shape[1])):
            total = total + np.outer(first[:, k], rest[0][k])
        return wide(ran, total)
    shape = ran.golden.shape
    rows = first.reshape(*shape, -1) if first.shape[: len(shape)] == shape else np.moveaxis(first, 0, -1)
    return wide(ran, np.cumsum(rows[..., ::-1], axis=-1, dtype=first.dtype)[..., -1].reshape(shape))


def by_blocks(ran: Ran) -> np.ndarray:
    """The same in blocks of 32, and then the blocks."""
    first, *rest = (x if x.dtype == np.float64 else x.astype(np.float32) for x in ran.inputs)
    if rest:
        parts = [first[:, k : k + 32] @ rest[0][k : k + 32] for k in range(0, first.shape[1], 32)]
        return wide(ran, np.add.accumulate(parts)[-1])
    rows = first.reshape(*ran.golden.shape, -1)
    starts = np.arange(0, rows.shape[-1], 32)
    return wide(ran, np.add.reduceat(rows, starts, axis=-1).sum(axis=-1, dtype=first.dtype))


def as_it_came(ran: Ran) -> np.ndarray:
    """What the backend computed."""
    return ran.got


def other_zero(ran: Ran) -> np.ndarray:
    """Zeros of the other sign, where the op does not say which."""
    return np.where(ran.golden == 0, -ran.golden, ran.golden)


ALL_COMPOSED = ", ".join(f"{name} {element}" for name, elements in COMPOSED.items() for element in elements)
HONEST: tuple[Changed, ...] = (
    *of_each(
        "backwards",
        "dot f32 256, dot bf16 256, dot f64 128, sum f32 cancel, sum f32 100000, sum f32 rows, "
        "sum f32 columns, sum bf16 rows",
        backwards,
    ),
    *of_each("by blocks", "dot f32 512, dot bf16 512, sum f32 128, sum f64 rows", by_blocks),
    *of_each(
        "rounded once",
        "dot bf16 1024, conv bf16, conv f32, multiply bf16 256, add bf16 256, divide f32 64, "
        "sqrt f32, log f32 near 1, log f64 near 1, log1p f32, expm1 f32, sine f32, exp bf16 128, exp f64, "
        "power f32",
        nearest,
    ),
    *of_each("as it came", "next_after, i1 to f16", as_it_came),
    *of_each("rounded once", ALL_COMPOSED, nearest),
    *of_each("as it came", ALL_COMPOSED, as_it_came),
    *of_each("the other zero", "maximum f32 ends", other_zero),
)
