"""The verdict on random numbers whose algorithm is each implementation's own: their distribution, for want of a golden.

`stablehlo.rng` names a distribution, and `rng_bit_generator` DEFAULT uniform bits that follow from a state. Each
question has a limit that right numbers pass but for a chance of `CHANCE`, and one of `SPREAD_CHANCE`: of ten ops in a
run, one is red by chance less than once in 10^9 runs. The limits hold for any number of elements, and say nothing of a
few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np

from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.records import ResultCheck, TensorDesc
from opscope.harness.verdict.steps import FRACTION_BITS
from opscope.harness.verdict.target import Target

NAME = "random numbers"
"""What the records have in place of a row of the tolerance table."""
CHANCE = 5e-12
"""Chance that right numbers fail one question; a word of 64 bits has 64 bits and seven distances to be asked about."""
SPREAD_CHANCE = 5e-11
"""The same of the deviation of normal numbers: it has to tell 1.01 from 1 among 400,000."""
_LN = math.log(2 / CHANCE)
_Z = -NormalDist().inv_cdf(CHANCE / 2)
_Z_SPREAD = -NormalDist().inv_cdf(SPREAD_CHANCE / 2)
FEW = 1000
"""From here on, sums of independent values are taken for normal ones where no bound is known."""
MOST_LAGS = 1 << 22
"""Numbers of which all distances are asked; of more, sums of neighbours."""
BINS = 256
FINEST = 2.0**-23
"""A generator of floats may have so few random bits."""


def distribution(got: np.ndarray, kind: str, low: float, high: float, target: Target) -> ResultCheck | None:
    """The verdict on the result of `stablehlo.rng`: `UNIFORM` between two values, or `NORMAL` with a mean and a
    deviation. None where there is no such distribution, and of booleans, of which the specification names none."""
    if got.dtype.kind == "b" or not math.isfinite(low) or not math.isfinite(high):
        return None
    if (high < 0) if kind == "NORMAL" else (high <= low):
        return None
    values = got.astype(np.float64).ravel()
    if not np.isfinite(values).all():
        return failed("expected finite numbers, got NaN or infinity")
    unit = unit_of(got, target)
    if not values.size:
        return failed("")
    return _first(
        _normal(values, low, high, unit) if kind == "NORMAL" else _uniform(values, low, high, unit, is_float(got))
    )


def failed(reason: str) -> ResultCheck:
    """The check of a result that fails for a reason; one that passes where there is none."""
    return ResultCheck(
        passed=not reason,
        pcc=None,
        relative_l2=None,
        max_abs=None,
        tolerance=NAME,
        reason=reason,
        question="distribution" if reason else "",
    )


def other_type(got: np.ndarray, desc: TensorDesc) -> str:
    """How a result differs from its declared shape and type; empty if it does not."""
    wanted = numpy_dtype(desc.data_type)
    if tuple(got.shape) != tuple(desc.shape):
        return f"shape: expected {tuple(desc.shape)}, got {tuple(got.shape)}"
    return "" if got.dtype == wanted else f"element type: expected {desc.data_type}, got {got.dtype.name}"


def bits(got: np.ndarray) -> ResultCheck:
    """The verdict on random bits."""
    words = np.ascontiguousarray(got).view(f"u{got.dtype.itemsize}").ravel()
    return _first(_bits(words))


def depends_on_state(
    state: np.ndarray, new: np.ndarray, drawn: np.ndarray, again: np.ndarray, others: Sequence[np.ndarray]
) -> ResultCheck:
    """The verdict on a generator's new state, and on what it draws from equal and from `others`, different, states."""
    return _first(_state(state, new, drawn, again, others))


def unit_of(got: np.ndarray, target: Target) -> float:
    """The unit roundoff of the floats that a result went through; 0 of integers."""
    if not is_float(got):
        return 0.0
    declared = 2.0 ** -(np.finfo(got.dtype).nmant + 1 if got.dtype.isbuiltin == 1 else {1: 3, 2: 8}[got.dtype.itemsize])
    stored = FRACTION_BITS.get((target.float_format or "").removesuffix("_b")) if target.float_format else None
    return max(declared, 0.0 if stored is None else 2.0 ** -(stored + 1))


def _uniform(values: np.ndarray, low: float, high: float, unit: float, floats: bool) -> Iterator[str]:
    count, width = values.size, high - low
    largest = max(abs(low), abs(high))
    slack = 2 * unit * largest
    smallest, greatest = float(values.min()), float(values.max())
    end = high + slack if floats else high - 1
    if smallest < low - slack or greatest > end:
        yield f"expected numbers in [{low:.6g}, {high:.6g}), got {smallest if smallest < low - slack else greatest:.6g}"
    # The share at either end that so many numbers do not all miss.
    share = min(1.0, _LN / count)
    inner = width * share + (0.0 if floats else 1.0) + slack
    if greatest < high - inner or smallest > low + inner:
        yield f"expected {count:,} numbers to fill [{low:.6g}, {high:.6g}), got {smallest:.6g} to {greatest:.6g}"
    # Integers are words modulo a width, which need not divide the number of words.
    uneven = 0.0 if floats else min(1.0, width / 2.0 ** (64 if width > 2.0**31 else 32))
    places = (values - low) / width
    gap = _largest_gap(places, 0.0 if floats else 1 / width)
    limit = math.sqrt(_LN / (2 * count)) + slack / width + uneven + FINEST
    if gap > limit:
        yield _apart("uniform", gap, limit)
    cell = max(FINEST, 2 * slack / width) if floats else 1 / width
    yield from _distinct(values, cell)
    middle, variance = (0.5, 1 / 12) if floats else (0.5 - 0.5 / width, (1 - width**-2) / 12)
    if variance:
        yield from _serial((values - low) / width - middle, variance)


def _normal(values: np.ndarray, mean: float, deviation: float, unit: float) -> Iterator[str]:
    count = values.size
    if deviation == 0:
        yield from _constant(values, mean)
        return
    slack = 2 * unit * (1 + abs(mean) / abs(deviation))
    scores = (values - mean) / abs(deviation)
    largest = float(np.abs(scores).max())
    # The tail of a normal distribution is below exp(-x^2 / 2).
    if largest > (limit := math.sqrt(2 * (_LN + math.log(count))) * (1 + slack) + slack):
        yield f"expected numbers within {limit:.3g} deviations of the mean, got one at {largest:.3g}"
    average = float(scores.mean())
    if abs(average) > (limit := _Z / math.sqrt(count) + slack):
        yield f"expected a mean of {mean:.6g} within {limit * abs(deviation):.3g}, got {mean + average * deviation:.6g}"
    spread = float(np.mean(scores * scores))
    least, most = _variance_limits(count)
    if not least * (1 - slack) - slack <= spread <= most * (1 + slack) + slack:
        allowed = f"{math.sqrt(max(least, 0.0)) * abs(deviation):.6g} to {math.sqrt(most) * abs(deviation):.6g}"
        yield f"expected a deviation of {allowed} of {count:,} numbers, got {math.sqrt(spread) * abs(deviation):.6g}"
    theirs = 0.5 * (1 + _erf(scores / math.sqrt(2)))
    gap, limit = _largest_gap(theirs, 0.0), math.sqrt(_LN / (2 * count)) + slack + FINEST
    if gap > limit:
        yield _apart("normal", gap, limit)
    yield from _distinct(values, max(FINEST, slack))
    yield from _serial(scores, 1.0)


def _variance_limits(count: int) -> tuple[float, float]:
    """Between what the mean square of so many normal numbers lies: chi-squared over its degrees of freedom."""
    if count < FEW:  # Laurent and Massart 2000, lemma 1
        wide = 2 * math.sqrt(_LN / count)
        return 1 - wide, 1 + wide + 2 * _LN / count
    ninth = 2 / (9 * count)  # Wilson and Hilferty 1931
    return (1 - ninth - _Z_SPREAD * math.sqrt(ninth)) ** 3, (1 - ninth + _Z_SPREAD * math.sqrt(ninth)) ** 3


def _bits(words: np.ndarray) -> Iterator[str]:
    count, width = words.size, 8 * words.dtype.itemsize
    if not count:
        return
    lean = math.sqrt(count * _LN / 2)  # Hoeffding
    for bit in range(width):
        ones = int(np.count_nonzero(words & words.dtype.type(1 << bit)))
        if abs(ones - count / 2) > lean:
            yield f"expected bit {bit} set in {count / 2:,.0f} of {count:,} words, got {ones:,}"
    frequencies = np.bincount(words.view(np.uint8), minlength=BINS)
    mean = frequencies.sum() / BINS
    if mean >= 8:
        squares = float(((frequencies - mean) ** 2).sum() / mean)
        # Laurent and Massart 2000 with twice their exponent, since counts are only nearly normal.
        limit = BINS - 1 + 2 * math.sqrt((BINS - 1) * 2 * _LN) + 4 * _LN
        if squares > limit:
            yield f"expected bytes of equal frequency (chi squared at most {limit:.0f}), got {squares:.0f}"
    yield from _distinct(words, 2.0**-width)
    yield from _serial(words.astype(np.float64) / 2.0**width - 0.5, 1 / 12)


def _state(
    state: np.ndarray, new: np.ndarray, drawn: np.ndarray, again: np.ndarray, others: Sequence[np.ndarray]
) -> Iterator[str]:
    if np.array_equal(_words(state), _words(new)):
        yield "expected another state, got the one that it began with"
    if not np.array_equal(_words(drawn), _words(again)):
        yield "expected equal bits from an equal state, got others"
    for other in others:
        ours, theirs = _words(drawn), _words(other)
        same, share = int(np.count_nonzero(ours == theirs)), 2.0 ** (-8 * drawn.dtype.itemsize)
        if same > _at_most(ours.size * share):
            yield f"expected other bits from another state, got {same:,} of {ours.size:,} words again"


def _words(array: np.ndarray) -> np.ndarray:
    """The bits of each element."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").ravel()


def _largest_gap(places: np.ndarray, step: float) -> float:
    """How far the empirical distribution is from that of which `places` are the quantiles, at most. Integers have their
    probability at one place, which is a `step`."""
    ordered, count = np.sort(places), places.size
    last = np.append(np.flatnonzero(np.diff(ordered)), count - 1)
    above = np.abs((last + 1) / count - (ordered[last] + step)).max()
    first = np.append(0, last[:-1] + 1)
    return float(max(above, np.abs(first / count - ordered[first]).max()))


def _distinct(values: np.ndarray, cell: float) -> Iterator[str]:
    """Whether more values are repeated than chance repeats, of which none is likelier than `cell`."""
    count = values.size
    likely = np.minimum(1.0, np.arange(count) * cell).sum() if count * cell > 1 else count * (count - 1) / 2 * cell
    repeated, limit = count - np.unique(values).size, _at_most(float(likely))
    if repeated > limit:
        yield f"expected at most {limit:,} repeated values of {count:,}, got {repeated:,}"


def _at_most(expected: float) -> int:
    """What a sum of independent indicators with this mean does not exceed (Chernoff)."""
    # The least k with exp(-m) (e m / k)^k below the chance.
    limit = max(1, math.ceil(expected))
    while expected and limit * (math.log(limit / expected) - 1) + expected < _LN:
        limit += max(1, limit >> 6)
    return limit


def _serial(centred: np.ndarray, variance: float) -> Iterator[str]:
    """Whether all numbers are independent: of those any distance before them, of those opposite to them about any
    middle, and in size alone as well, which a turned sign hides."""
    if centred.size < 2 * FEW:
        return
    # Sums of neighbours keep what their parts have in common.
    together = -(-centred.size // MOST_LAGS)
    whole = centred[: centred.size // together * together].reshape(-1, together)
    size = np.abs(whole)
    yield from _correlated(whole.sum(axis=1), variance * together, "numbers")
    yield from _correlated((size - size.mean()).sum(axis=1), float(size.var()) * together, "sizes of numbers")


def _correlated(centred: np.ndarray, variance: float, what: str) -> Iterator[str]:
    """Whether numbers go with others at some distance, or opposite about some middle: sums of products over all pairs,
    each over its deviation, by a Fourier transform."""
    count = centred.size
    if not variance or count < 2 * FEW:
        return
    length = 1 << (2 * count - 1).bit_length()
    transformed = np.fft.rfft(centred, length)
    lags = np.arange(1, count - FEW + 1)
    before = np.fft.irfft(transformed * transformed.conj(), length)[lags] / (variance * np.sqrt(count - lags))
    # Of numbers about one middle each pair is met twice, and the middle itself is no pair.
    sums = np.arange(FEW, 2 * count - 1 - FEW)
    pairs = np.minimum(sums + 1, 2 * count - 1 - sums)
    own = np.zeros(2 * count - 1)
    own[::2] = np.square(centred)
    mirrored = (np.fft.irfft(np.square(transformed), length)[sums] - own[sums]) / (variance * np.sqrt(2.0 * pairs))
    limit = 1 + math.sqrt(2 * (_LN + math.log(4.0 * count)))
    for scores, name in (
        (before, lambda at: f"those {lags[at]} before"),
        (mirrored, lambda at: f"those opposite about element {sums[at] / 2:g}"),
    ):
        at = int(np.argmax(np.abs(scores)))
        if abs(scores[at]) > limit:
            yield f"expected independent {what}, got ones that go with {name(at)} (z {scores[at]:.3g})"


def _constant(values: np.ndarray, value: float) -> Iterator[str]:
    if (values != value).any():
        yield f"expected {value:.6g} throughout, got {values[values != value][0]:.6g}"


def _apart(name: str, gap: float, limit: float) -> str:
    return f"expected a {name} distribution, got one that is {gap:.3g} apart (at most {limit:.3g})"


def _erf(values: np.ndarray) -> np.ndarray:
    """The error function of each element, to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    size = np.abs(values)
    t = 1 / (1 + 0.3275911 * size)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(values) * (1 - tail * np.exp(-size * size))


def _first(reasons: Iterator[str]) -> ResultCheck:
    return failed(next(reasons, ""))
