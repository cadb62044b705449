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
| `every:LOW:HIGH` | numbers of all exponents in [LOW, HIGH], of a type of 16 bits each once before one comes again |
| `every:LOW:HIGH:NEAR` | the same, with a share NEAR of numbers near 1 |
| `spiked:WIDTH:X` | normal rows of WIDTH, one value of each replaced by X |
| `repeated:WIDTH:COUNT` | rows of WIDTH of COUNT different normal values |
| `sorted:WIDTH:SIGN` | normal rows of WIDTH, ascending, or descending with SIGN -1 |
| `scaled:WIDTH:LOW:HIGH` | normal rows of WIDTH, each times a power of two with an exponent in [LOW, HIGH) |
| `cancelling:WIDTH` | normal rows of WIDTH with the negative of each value, in any order |

Each array has its own stream of bits (PCG64DXSM), seeded by (seed, index): no value depends on what else was drawn.
Floats are drawn as float32 and rounded to the type, so that a bfloat16 weight is the rounding of the float32 one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import NormalDist

import numpy as np

from opscope.base import passes

BLOCK = 1 << 15
"""Normal values that are made at a time: what a block needs stays in a core's cache."""
SHIFT = 16
"""Bits of a float32 that do not choose its line: 7 bits of the mantissa are left, so 128 lines for each octave."""
_SIGN, _MAGNITUDE = np.int32(-(1 << 31)), np.int32((1 << 31) - 1)

Drawer = Callable[[np.random.Generator, np.ndarray, Sequence[float]], None]
"""Fills an array of one dimension; the numbers are those of the distribution."""


def _words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random bits, uint32."""
    words = rng.bit_generator.random_raw(-(-count // 2)).astype("<u8", copy=False)  # the same order on every machine
    return words.view("<u4")[:count].astype(np.uint32, copy=False)


@cache
def _lines() -> tuple[np.ndarray, np.ndarray]:
    """Offset and slope of each line, float32, by the first bits of its argument.

    The argument of a line is 2^32 times the probability of a larger magnitude on one side, from 1 to 2^31. Its octaves
    become longer with the probability, so that the far tail is as exact as the middle: up to 6.2 standard deviations.
    """
    first, last = (np.array([1, 2.0**31], np.float32).view(np.int32) >> SHIFT).tolist()
    edges = (np.arange(first, last + 1, dtype=np.int32) << SHIFT).view(np.float32).astype(np.float64)
    quantiles = np.array([-NormalDist().inv_cdf(edge / 2**32) for edge in edges])
    slopes, offsets = np.zeros(last + 1, np.float32), np.zeros(last + 1, np.float32)
    slopes[first:-1] = steepness = np.diff(quantiles) / np.diff(edges)
    offsets[first:-1] = quantiles[:-1] - steepness * edges[:-1]
    offsets[:first] = offsets[first]  # of 0, which has no logarithm
    # 2^31 - 1 rounds up to 2^31 in float32: the median, which is 0.
    return offsets, slopes


class _Lines:
    """Normal values from random bits by NumPy, a block at a time, with the bits of the compiled pass `normal`."""

    def __init__(self, size: int) -> None:
        self._masked, self._line, self._term = np.empty(size, np.int32), np.empty(size, np.intp), np.empty(size, "f4")

    def __call__(
        self, words: np.ndarray, offsets: np.ndarray, slopes: np.ndarray, scale: float, shift: float, out: np.ndarray
    ) -> None:
        """Fills `out`, float32, from as many `words`, uint32."""
        masked, line, term = self._masked[: out.size], self._line[: out.size], self._term[: out.size]
        out[:] = np.bitwise_and(words.view(np.int32), _MAGNITUDE, out=masked)
        np.right_shift(out.view(np.int32), SHIFT, out=line)
        out *= slopes.take(line, out=term, mode="clip")  # no line is outside: that is only faster
        out += offsets.take(line, out=term, mode="clip")
        out *= np.float32(scale)
        signed = out.view(np.int32)
        signed ^= np.bitwise_and(words.view(np.int32), _SIGN, out=masked)
        out += np.float32(shift)


def _normal(rng: np.random.Generator, out: np.ndarray, numbers: Sequence[float]) -> None:
    """Normal values; `numbers` are STD or MEAN, STD.

    The inverse of the normal distribution, as a table of lines: NumPy's `standard_normal` takes more than twice as
    long, and NumPy does not promise its values for other versions; it does promise the bits of a bit generator.
    """
    mean, std = numbers if len(numbers) == 2 else (0.0, numbers[0])
    shift = float(np.float32(mean)) if mean else -0.0  # what changes no value: not even -0
    size = min(BLOCK, out.size)
    along_lines = _Lines(size) if passes.compiled is None else passes.compiled.normal
    # The pass writes into float32 alone; the halves of a complex array are not contiguous.
    direct = out.dtype == np.float32 and out.flags.c_contiguous
    scratch = np.empty(0 if direct else size, np.float32)
    for start in range(0, out.size, BLOCK):
        block = out[start : start + BLOCK]
        values = block if direct else scratch[: block.size]
        along_lines(_words(rng, block.size), *_lines(), float(np.float32(std)), shift, values)
        if not direct:
            block[:] = values


def _unit(rng: np.random.Generator, size: int) -> np.ndarray:
    """Uniform values in [0, 1), float32: multiples of 2^-24, each from 32 bits."""
    return (_words(rng, size) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _uniform(rng: np.random.Generator, out: np.ndarray, numbers: Sequence[float]) -> None:
    """Uniform values in [LOW, HIGH)."""
    low, high = numbers
    out[:] = _unit(rng, out.size) * np.float32(high - low) + np.float32(low)


def _magnitude(rng: np.random.Generator, out: np.ndarray, numbers: Sequence[float]) -> None:
    """Uniform magnitudes with random signs."""
    sign = rng.integers(0, 2, size=out.size, dtype=np.int8).astype(np.float32) * 2 - 1
    low, high = numbers
    out[:] = sign * (_unit(rng, out.size) * np.float32(high - low) + np.float32(low))


def _integers(rng: np.random.Generator, out: np.ndarray, numbers: Sequence[float]) -> None:
    """Integers in [LOW, HIGH)."""
    out[:] = rng.integers(int(numbers[0]), int(numbers[1]), size=out.size, dtype=np.int64)


def _bool(rng: np.random.Generator, out: np.ndarray, numbers: Sequence[float]) -> None:
    """True with a probability."""
    out[:] = _unit(rng, out.size) < numbers[0]


def _range(rng: np.random.Generator, out: np.ndarray, numbers: Sequence[float]) -> None:
    """0, 1, 2, ..."""
    out[:] = np.arange(out.size)


def numbers_between(kind: np.dtype, low: float, high: float) -> np.ndarray:
    """The zero and all normal numbers of a type of at most 16 bits in [LOW, HIGH]."""
    import ml_dtypes

    codes = np.arange(1 << (8 * kind.itemsize), dtype=np.uint32).astype(f"u{kind.itemsize}").view(kind)
    with np.errstate(invalid="ignore"):
        values = codes.astype(np.float64)
    usable = np.isfinite(values) & ((np.abs(values) >= float(ml_dtypes.finfo(kind).smallest_normal)) | (values == 0))
    return codes[usable & (values >= low) & (values <= high)]


def _every(rng: np.random.Generator, out: np.ndarray, numbers: Sequence[float]) -> None:
    """Numbers of all exponents in [LOW, HIGH], a share of them near 1."""
    low, high, near = (*numbers, 0.0)[:3]
    if out.dtype.itemsize <= 2:
        values = rng.permutation(numbers_between(out.dtype, low, high))
        out[:] = np.resize(values, out.size)
    else:
        out[:] = _of_all_exponents(rng, out.size, out.dtype, low, high)
    close = rng.random(out.size) < near
    if close.any():
        size = np.ldexp(_unit(rng, out.size) + 1, rng.integers(-4, 4, out.size))
        value = np.clip(np.where(rng.random(out.size) < 0.5, size, -size), low, high).astype(out.dtype)
        out[close] = value[close]


def _of_all_exponents(rng: np.random.Generator, size: int, kind: np.dtype, low: float, high: float) -> np.ndarray:
    """Numbers of float32 or float64 whose exponents, of both signs, are as likely as each other, in [LOW, HIGH]."""
    limits = np.finfo(kind)
    exponent = rng.integers(limits.minexp, limits.maxexp, size)
    value = np.ldexp(1 + rng.random(size), exponent) * rng.choice((1.0, -1.0), size)
    inside = (value >= low) & (value <= high)
    if low >= 0:
        value, inside = np.abs(value), np.abs(value) <= high
    ends = max(low, -float(limits.max)), min(high, float(limits.max))
    return np.where(inside, value, ends[0] + (ends[1] / 2 - ends[0] / 2) * 2 * rng.random(size)).astype(kind)


def _rows(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Rows of normal values, float32."""
    out = np.empty(count * width, np.float32)
    _normal(rng, out, (1.0,))
    return out.reshape(count, width)


def _spiked(rng: np.random.Generator, count: int, width: int, value: float) -> np.ndarray:
    rows = _rows(rng, count, width)
    rows[np.arange(count), rng.integers(width, size=count)] = value
    return rows


def _repeated(rng: np.random.Generator, count: int, width: int, different: float) -> np.ndarray:
    values = _rows(rng, count, int(different))
    return np.take_along_axis(values, rng.integers(values.shape[1], size=(count, width)), axis=1)


def _sorted(rng: np.random.Generator, count: int, width: int, sign: float) -> np.ndarray:
    return np.sort(_rows(rng, count, width), axis=1) * np.float32(sign)


def _scaled(rng: np.random.Generator, count: int, width: int, low: float, high: float) -> np.ndarray:
    return np.ldexp(_rows(rng, count, width), rng.integers(int(low), int(high), (count, 1)))


def _cancelling(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    half = _rows(rng, count, width - width // 2)
    return rng.permuted(np.concatenate([half, -half], axis=1)[:, :width], axis=1)


def _in_rows(draw_rows: Callable[..., np.ndarray]) -> Drawer:
    """What draws rows of a width, the first of its numbers, until an array is full."""

    def drawer(rng: np.random.Generator, out: np.ndarray, numbers: Sequence[float]) -> None:
        width = max(1, int(numbers[0]))
        rows = draw_rows(rng, -(-out.size // width), width, *numbers[1:])
        out[:] = rows.reshape(-1)[: out.size].astype(out.dtype)

    return drawer


# word -> (how many numbers it takes, function)
DISTRIBUTIONS: dict[str, tuple[tuple[int, ...], Drawer]] = {
    "normal": ((1, 2), _normal),
    "uniform": ((2,), _uniform),
    "magnitude": ((2,), _magnitude),
    "int": ((2,), _integers),
    "bool": ((1,), _bool),
    "ones": ((0,), lambda rng, out, numbers: out.fill(1)),
    "zeros": ((0,), lambda rng, out, numbers: out.fill(0)),
    "const": ((1,), lambda rng, out, numbers: out.fill(numbers[0])),
    "range": ((0,), _range),
    "every": ((2, 3), _every),
    "spiked": ((2,), _in_rows(_spiked)),
    "repeated": ((2,), _in_rows(_repeated)),
    "sorted": ((2,), _in_rows(_sorted)),
    "scaled": ((3,), _in_rows(_scaled)),
    "cancelling": ((1,), _in_rows(_cancelling)),
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
    rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence((seed & mask, index & mask))))
    values = np.empty(math.prod(shape), kind)
    if kind.kind == "c":
        # A complex value is two draws: the imaginary part comes after the real one in the same stream.
        drawer(rng, np.real(values), numbers)
        drawer(rng, np.imag(values), numbers)
    else:
        drawer(rng, values, numbers)
    return values.reshape(tuple(shape))
