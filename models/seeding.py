"""Seeded values: `draw` turns a distribution, a seed and an index into an array, the same one on every machine.

A distribution (the field `law` of an `ArgSpec`) is a word and its numbers, joined by colons:

| distribution | value |
|---|---|
| `normal:STD`, `normal:MEAN:STD` | normal distribution |
| `uniform:LOW:HIGH` | uniform in [LOW, HIGH) |
| `magnitude:LOW:HIGH` | uniform magnitude in [LOW, HIGH), random sign: away from zero |
| `int:LOW:HIGH` | integers in [LOW, HIGH) |
| `bool:P` | true with probability P |
| `ones`, `zeros`, `const:X` | one value |
| `range` | 0, 1, 2, ... in row-major order |

Each array has its own Philox stream, keyed by (seed, index): no value depends on what else was drawn. Floats are drawn
as float32 and rounded to the type, so that a bfloat16 weight is the rounding of the float32 one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Drawer = Callable[[np.random.Generator, Sequence[int], Sequence[float]], np.ndarray]


def _normal(rng: np.random.Generator, shape: Sequence[int], numbers: Sequence[float]) -> np.ndarray:
    """Normal values; `numbers` are STD or MEAN, STD."""
    mean, std = numbers if len(numbers) == 2 else (0.0, numbers[0])
    values = rng.standard_normal(tuple(shape), dtype=np.float32)
    values *= np.float32(std)
    if mean:
        values += np.float32(mean)
    return values


def _uniform(rng: np.random.Generator, shape: Sequence[int], numbers: Sequence[float]) -> np.ndarray:
    """Uniform values in [LOW, HIGH)."""
    low, high = numbers
    return rng.random(tuple(shape), dtype=np.float32) * np.float32(high - low) + np.float32(low)


def _magnitude(rng: np.random.Generator, shape: Sequence[int], numbers: Sequence[float]) -> np.ndarray:
    """Uniform magnitudes with random signs."""
    sign = rng.integers(0, 2, size=tuple(shape), dtype=np.int8).astype(np.float32) * 2 - 1
    return sign * _uniform(rng, shape, numbers)


# word -> (how many numbers it takes, function)
DISTRIBUTIONS: dict[str, tuple[tuple[int, ...], Drawer]] = {
    "normal": ((1, 2), _normal),
    "uniform": ((2,), _uniform),
    "magnitude": ((2,), _magnitude),
    "int": ((2,), lambda rng, shape, n: rng.integers(int(n[0]), int(n[1]), size=tuple(shape), dtype=np.int64)),
    "bool": ((1,), lambda rng, shape, n: rng.random(tuple(shape), dtype=np.float32) < n[0]),
    "ones": ((0,), lambda rng, shape, n: np.ones(tuple(shape), np.float32)),
    "zeros": ((0,), lambda rng, shape, n: np.zeros(tuple(shape), np.float32)),
    "const": ((1,), lambda rng, shape, n: np.full(tuple(shape), n[0], np.float64)),
    "range": ((0,), lambda rng, shape, n: np.arange(math.prod(shape), dtype=np.int64).reshape(tuple(shape))),
}


def parse_distribution(distribution: str) -> tuple[Drawer, tuple[float, ...]]:
    """Returns the function that draws from a distribution, and its numbers. Raises ValueError if it is invalid."""
    word, *rest = distribution.split(":")
    if word not in DISTRIBUTIONS:
        raise ValueError(f"law: expected one of {', '.join(DISTRIBUTIONS)}, got {distribution!r}")
    counts, drawer = DISTRIBUTIONS[word]
    try:
        numbers = tuple(float(text) for text in rest)
    except ValueError:
        raise ValueError(
            f"law {word}: expected numbers after the colon, got {distribution!r}; try {word}:0:1"
        ) from None
    if len(numbers) not in counts:
        raise ValueError(
            f"law {word}: expected {' or '.join(map(str, counts))} numbers, got {len(numbers)} in {distribution!r}"
        )
    if word == "int" and int(numbers[0]) >= int(numbers[1]):
        raise ValueError(f"law int: expected LOW < HIGH, got {distribution!r}")
    return drawer, numbers


def dtype_of(name: str) -> np.dtype:
    """NumPy's dtype of a name such as `float32` or, from ml_dtypes, `bfloat16`, `float8_e4m3fn`, `int4`."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        kind = getattr(ml_dtypes, name, None)
        if kind is None:
            raise ValueError(f"dtype: expected a NumPy or ml_dtypes name, got {name!r}") from None
        return np.dtype(kind)


def draw(distribution: str, shape: Sequence[int], dtype: str | np.dtype, seed: int, index: int) -> np.ndarray:
    """Draws the array of (`seed`, `index`) from `distribution`; C order, owned by the caller.

    Raises ValueError if the distribution is not known or its numbers are wrong.
    """
    drawer, numbers = parse_distribution(distribution)
    kind = dtype_of(dtype) if isinstance(dtype, str) else dtype
    mask = (1 << 64) - 1
    rng = np.random.Generator(np.random.Philox(key=np.array([seed & mask, index & mask], np.uint64)))
    values = drawer(rng, shape, numbers)
    if kind.kind == "c":
        # A complex value is two draws: the imaginary part comes after the real one in the same stream.
        values = values + 1j * drawer(rng, shape, numbers)
    return np.ascontiguousarray(values.astype(kind, copy=False)).reshape(tuple(shape))
