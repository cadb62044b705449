"""z = error / scale for every element of a result, and the three questions that a verdict asks of them.

Is the **largest** z too large for one element? Is there a **systematic** error, along the golden or beside it, that no
rounding explains? Is one **place** (face row, face, tile, last row or column, batch entry) worse than chance? The
scale is what `Steps` cost times the size of what was rounded; docs/verdicts.md derives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from opscope.harness.verdict import places
from opscope.harness.verdict.steps import RANDOM, Steps
from opscope.harness.verdict.unrounded import Unrounded

SLACK, BLOCK_SLACK = 1.02, 1.1
"""A bound may be exceeded by the rounding of the figures that it is made of; of block formats by more, since the
largest of a block, which decides how all others are rounded, is itself off by up to three times 2^-7."""
LEAST_LIMIT = 3.5
"""Limit of z in a sum with few elements: five deviations of what truncation takes of many terms, 0.7 of the scale."""
TIES = 0.8
"""Share of its unit roundoff by which a packer that rounds ties away lifts values that are all ties, on the mean."""
SYSTEMATIC_FROM = 64
"""Elements from which a mean is asked for; of a bound also different values of the golden, since elements that are
computed from equal operands are all rounded alike."""
SYSTEMATIC = 4.0
"""Deviations by which a mean may miss. Elements that share operands share their errors: N of them are taken for
sqrt(N) independent ones (a product of two square matrices has 2 N operands for N results of sqrt(N) terms each)."""
ALONE = 6.0
"""The same where only the result is rounded, each element for itself: one honest result in 10^9 misses by more."""
UNEXPLAINED = 0.05
"""Mean of all roundings, in units in the last place, that may have no cause: golden and result round the same values,
and what is not known of how either treats ties and denormals stays far below. Rounding in one direction: 0.36."""
FIRM = 64.0
"""Half units of itself that its own steps may cost an element of float32 that a mean is made of. Others say nothing:
terms cancel."""
CANCELS = 4.0
"""The same of other honest steps than the usual ones, as a multiple: where these cancel a mean says nothing either."""
PLACED = 8.0
"""Deviations by which a structure's mean square may exceed 1: 1 + 8 sqrt(2 / n). Of n elements that share operands
sqrt(n) are taken for independent, as for a mean: one weight is cut once for all places of a channel."""
FINE = 16
"""So many times finer than the result is rounded must the sum be that it rounds."""
WORST = 1e9
"""z of an element that has an error and no scale."""


@dataclass
class Scale:
    """The sizes that a result's scale is made of, each in the result's shape."""

    steps: Steps
    terms: np.ndarray | None = None
    """Root sum of squares of each element's terms; None: not known, the golden itself is taken."""
    moved: np.ndarray | None = None
    """How far each element moves where the operands are off by what storing them costs; None: not evaluated."""
    within: np.ndarray | None = None
    """How far the roundings of the op's own steps may move each element, perhaps all alike; None: it is one step."""
    usual: np.ndarray | None = None
    """The same of the usual steps alone, by which elements are taken that a mean is made of. Beside `within`."""
    leaning: np.ndarray | None = None
    """What each element is off by where these roundings all lean one way, which a mean may be too. Beside `within`."""
    unrounded: Unrounded | None = None
    """What the result was before it was rounded; None: not evaluated."""
    added: np.ndarray | None = None
    """What stands for `terms` where roundings of additions are meant; None: `terms`."""
    first_look: bool = False
    """Whether a result that fails is judged once more, by its operands."""
    hasty: bool = False
    """Whether all that is asked of the first element that is too far off is that it is so. Beside `first_look`."""
    lost: float | None = None
    """Most that a sum loses on the mean because its operands are cut, relative; None: all that may be cut."""
    offsets: tuple[np.ndarray, ...] = ()
    """By how much the golden is off of what storing in blocks makes of it, in each of some ways, flat."""
    alike: float = 0.0
    """Most by which all elements may be off alike, relative: by a constant of the op that was stored."""

    def of(self, span: slice, golden: np.ndarray, columns: int) -> np.ndarray:
        """The scale of one chunk of float64 values, which has whole rows of `columns` elements or is part of one."""
        steps, size = self.steps, np.abs(golden)
        moved = None if self.moved is None else self.moved[span]
        rounded = steps.rounded
        if steps.block:
            packed = (
                steps.declared * size + rounded * places.blocks_of(size.reshape(-1, min(columns, size.size))).ravel()
            )
        else:
            packed = steps.result * size if rounded else None
        if steps.error_model == "bound":
            # What storing operands costs is known once they are evaluated.
            own = steps.function + steps.cuts
            scale = own * size
            if packed is not None:
                scale += packed
            scale = scale if moved is None else scale + moved
            return scale if self.within is None else scale + self.within[span]
        if steps.error_model == "part":
            own = steps.function * size
            square = np.square(own).reshape(-1, min(columns, own.size))
            around = np.mean(square, axis=1, keepdims=True) if moved is None else np.square(moved).reshape(square.shape)
            return np.maximum(own, np.sqrt(square + around).ravel())  # squares may be too small a number
        terms = size if self.terms is None else np.maximum(self.terms[span].astype(np.float64), size * 1e-3)
        if steps.block and packed is not None:
            packed *= terms > 0  # a sum of zeros is packed as zero, whatever lies beside it
        square = np.square(terms)
        if self.added is None:
            square *= steps.operand**2 + steps.added**2
        else:
            square *= steps.operand**2
            square += np.square(np.maximum(terms, self.added[span]) * steps.added)
        own = math.hypot(steps.added, steps.function, RANDOM * steps.cuts)
        square += np.square(size) * own**2
        if packed is not None:
            square += np.square(packed)
        if moved is not None:
            square += np.square(RANDOM * moved)
        return np.sqrt(square, out=square)


@dataclass
class Scores:
    """Gathers z of one result, chunk by chunk, in order."""

    scale: Scale
    shape: tuple[int, ...]
    tiny: float = 0.0
    """The golden's smallest normal number, below which units in the last place become no smaller."""
    largest: float = 0.0
    at: int = -1
    count: int = 0
    total: float = 0.0
    along: float = 0.0
    """Sum of z times the golden in units of the scale; over `golden_squares` it is the slope of the error."""
    along_squares: float = 0.0
    """Sum of the squares of these products, of equal elements as if they were one: what their sum is by chance."""
    golden_total: float = 0.0
    golden_squares: float = 0.0
    rounded: int = 0
    """Elements that a mean of roundings is over: of float32 those whose own say something of it."""
    rounding: float = 0.0
    """Sum of what roundings were off, each in units in the last place of a `bound`, of the scale of a `sum`."""
    rounding_away: float = 0.0
    """The same away from zero."""
    rounding_squares: float = 0.0
    """Sum of their squares, of equal elements as if they were one."""
    leaning_along: float = 0.0
    """What `along` is where the op's own steps lean one way."""
    offsets_along: list[float] = field(default_factory=list)
    """The same of what storing in blocks alone makes, in each of some ways."""
    _blocks: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    """Of each block of 16 its part of `along` and of `golden_squares`, where blocks are rounded each for itself."""
    _face_rows: list[np.ndarray] = field(default_factory=list)
    _last_columns: list[np.ndarray] = field(default_factory=list)

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.shape[-1] if self.shape else 1

    def take(self, start: int, golden: np.ndarray, error: np.ndarray) -> None:
        """Adds one chunk of float64 values; whole rows, or part of one in multiples of a face's width."""
        self.count += golden.size
        if self.scale.steps.error_model == "bound" and not error.any():
            self.rounded += golden.size
            return
        span = slice(start, start + golden.size)
        scale = self.scale.of(span, golden, self.columns)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = error / scale
            part = golden / scale
        if not (self.largest < WORST and math.isfinite(float(z.sum()))):  # not finite wherever the scale is zero
            z = np.clip(np.nan_to_num(z, nan=0.0, posinf=WORST, neginf=-WORST), -WORST, WORST)
            part = np.where(np.isfinite(part), part, 0.0)
        high, low = float(z.max()), float(z.min())
        if max(high, -low) > self.largest:
            self.largest = max(high, -low)
            self.at = start + int(np.argmax(z) if high >= -low else np.argmin(z))
        mean, repeats = z, 1
        if self.scale.unrounded is not None:
            unrounded = self.scale.unrounded
            if unrounded.offset is not None:
                error = error - unrounded.offset[span]
                with np.errstate(divide="ignore", invalid="ignore"):
                    mean = error / scale
                mean = np.where(np.isfinite(mean) & (np.abs(mean) < WORST), mean, z)
            if unrounded.ties is not None:  # of which both neighbours are right
                either = np.abs(error) <= SLACK * 2 * self.scale.steps.rounded * np.abs(golden)
                mean = np.where(unrounded.ties[span] & either, 0.0, mean)
            repeats = unrounded.repeats if isinstance(unrounded.repeats, int) else unrounded.repeats[span]
        usual, within = (None if part is None else part[span] for part in (self.scale.usual, self.scale.within))
        if self.scale.leaning is not None:
            self.leaning_along += float((self.scale.leaning[span] * part / np.where(scale > 0, scale, 1.0)).sum())
        if self._rounds_alone:
            self._take_roundings(
                golden, mean * scale, mean, repeats, usual, within if self.scale.steps.last_place else None
            )
        self.total += float(mean.sum())
        products = mean * part
        self.along += float(products.sum())
        np.square(products, out=products)
        self.along_squares += float((products * repeats).sum())
        self.golden_total += float(part.sum())
        # Summed as `along` is: a product of vectors takes other sums on other processors, and a slope is their ratio.
        self.golden_squares += float(np.square(part).sum())
        if self.scale.offsets:
            by_golden = part / np.where(scale > 0, scale, np.inf)
            along = [float((each[span] * by_golden).sum()) for each in self.scale.offsets]
            before = self.offsets_along or [0.0] * len(along)
            self.offsets_along = [sum(pair) for pair in zip(before, along, strict=True)]
            width = min(self.columns, z.size)
            errors, sizes = (_face_sums(each.reshape(-1, width)).ravel() for each in (mean * part, np.square(part)))
            self._blocks.append((errors, sizes))
        if self.scale.steps.error_model != "bound":
            np.multiply(z, z, out=z)
            width = min(self.columns, z.size)
            rows = z.reshape(-1, width)
            self._face_rows.append(_face_sums(rows))
            if (start + z.size) % self.columns == 0:
                self._last_columns.append(rows[:, -1].astype(np.float32))

    @property
    def _rounds_alone(self) -> bool:
        """Whether nothing but the rounding of each result, for itself, moves it by as much as a unit in the last place:
        no operand lost anything, and sums are added up in a wider type."""
        steps = self.scale.steps
        if not self._last_place or steps.shared or steps.short or steps.block or self.scale.alike:
            return False
        return steps.error_model == "bound" or (
            steps.error_model == "sum" and FINE * max(steps.added, steps.joined) <= steps.rounded
        )

    @property
    def _last_place(self) -> float:
        """Half a unit in the last place of what is rounded, relative; 0 if nobody says that it is rounded once."""
        return self.scale.steps.rounded or self.scale.steps.last_place

    def _take_roundings(
        self,
        golden: np.ndarray,
        error: np.ndarray,
        z: np.ndarray,
        repeats: np.ndarray | int,
        usual: np.ndarray | None,
        within: np.ndarray | None,
    ) -> None:
        """Adds what roundings were off in one chunk. Where a kernel's own error is granted, z is too small a number for
        them; where the terms of a sum cancel, units in the last place are too large a one. What the op's own steps may
        have moved by more than the last rounding is none of it."""
        off = z
        if self.scale.steps.error_model == "bound":
            with np.errstate(divide="ignore", invalid="ignore"):
                off = error / (2 * self._last_place * np.maximum(np.abs(golden), self.tiny))
            off = np.where(np.isfinite(off), np.clip(off, -WORST, WORST), 0.0)
        steps, size = self.scale.steps, np.abs(golden)
        firm = np.ones(off.shape, bool)
        if usual is not None:
            firm &= np.ones(off.shape, bool) if within is None else within <= CANCELS * FIRM * steps.last_place * size
            firm &= usual <= (FIRM * steps.last_place if steps.last_place else steps.rounded / FINE) * size
        elif steps.last_place:
            firm = np.abs(off) <= FIRM / 2
        off = np.where(firm, off, 0.0)
        self.rounded += int(np.count_nonzero(firm)) if steps.last_place else off.size
        self.rounding += float(off.sum())
        self.rounding_away += float((off * np.sign(golden)).sum())
        self.rounding_squares += float((off * off * repeats).sum())

    @property
    def limit(self) -> float:
        """Largest z that is right: the bound where there is one, else a quantile of so many normal values."""
        if self.scale.steps.error_model == "bound":
            return BLOCK_SLACK if self.scale.steps.block else SLACK
        return max(LEAST_LIMIT, 1 + math.sqrt(2 * math.log(max(self.count, 1))))

    def wrong(self, several: Callable[[], bool] = lambda: True, ties: bool = True) -> tuple[str, str]:
        """Which question is answered wrongly and how, in words; empty if none is.

        `several` says whether the golden has enough different values for a mean (asked only where the mean is off),
        `ties` whether all values may have been ties.
        """
        if self.largest > self.limit:
            return "largest", f"{self.largest / self.limit:.3g} times as much as rounding allows"
        if (said := self._systematic(ties)) and several():
            return "systematic", said
        if said := self._placed():
            return "placed", said
        return "", ""

    def _systematic(self, ties: bool) -> str:
        """What the mean error along the golden, and beside it, has to say; `ties`: all values may have been ties."""
        steps = self.scale.steps
        if self.count < SYSTEMATIC_FROM or not self.golden_squares:
            return ""
        if steps.error_model == "bound" and not steps.packed:
            return self._directed(steps.leans) if steps.last_place and not ties else ""
        slope = self.along / self.golden_squares
        chance = SYSTEMATIC * self.count**0.25 / math.sqrt(self.golden_squares)
        rounded = steps.rounded
        known = self.scale.unrounded is not None and self.scale.unrounded.offset is not None
        if rounded and not (steps.cuts if known else steps.shared):
            # What rounding did, whichever way, is as likely to have gone the other way.
            own = steps.function + steps.added
            chance = min(chance, own + ALONE * math.sqrt(self.along_squares) / self.golden_squares)
        lost = steps.cuts if self.scale.lost is None else self.scale.lost
        lost += steps.short + (2 * steps.stored if steps.block and not self.scale.offsets else 0.0)
        if steps.error_model == "part":
            lost = chance = steps.function
        # Where real ties were counted out, a packer has no mean of its own; of steps between they are not known.
        known_ties = steps.counts_ties and not ties and self.scale.within is None
        packed = rounded if steps.packer and not known_ties else 0.0
        if self.scale.offsets:
            packed = steps.lifted
            chance = min(chance, steps.function + ALONE * self._scatter_of_blocks(slope))
        chance += self.scale.alike + abs(self.leaning_along) / self.golden_squares
        stored = [0.0, *(each / self.golden_squares for each in self.offsets_along)]
        low, high = min(stored) - lost - 0.25 * packed - chance, max(stored) + TIES * packed + chance
        if not low <= slope <= high:
            return f"expected between {low:+.2%} and {high:+.2%} of the golden, got {slope:+.2%}"
        if not ties and self._rounds_alone:
            own = steps.function / (2 * steps.rounded) if steps.error_model == "bound" else 0.0
            if said := self._directed(steps.leans if steps.last_place else own + UNEXPLAINED):
                return said
        if steps.error_model == "bound":
            return ""
        offset, most = (self.total - slope * self.golden_total) / self.count, SYSTEMATIC * self.count**-0.25
        if abs(offset) > most:
            return f"expected a mean of at most {most:.2g} of the scale beside the golden, got {offset:+.2g}"
        return ""

    def _scatter_of_blocks(self, slope: float) -> float:
        """The deviation of a slope by chance, as errors of blocks scatter about it; equal blocks count once."""
        errors, sizes = (np.concatenate(each).astype(np.float64) for each in zip(*self._blocks, strict=True))
        alike = sizes.size / max(1, np.unique(sizes).size)
        return math.sqrt(alike * float(np.square(errors - slope * sizes).sum())) / self.golden_squares

    def _directed(self, allowed: float) -> str:
        """What the mean of all roundings has to say, where so much of a unit has no cause."""
        if self.rounded < SYSTEMATIC_FROM:
            return ""
        most = allowed + ALONE * math.sqrt(self.rounding_squares) / self.rounded
        # Of 16 bits what leads away from zero is asked for by its slope.
        away = self.rounding_away if self.scale.steps.last_place else 0.0
        off = max(self.rounding, away, key=abs) / self.rounded
        if abs(off) <= most:
            return ""
        return f"expected roundings that are off by at most {most:.2g} of a unit on the mean, got {off:+.2g}"

    def _placed(self) -> str:
        """Which structure's mean square is too large, and how large it is elsewhere."""
        if self.scale.steps.error_model == "bound" or self.largest <= 1:
            return ""
        face_rows = np.concatenate([part.ravel() for part in self._face_rows])
        last = np.concatenate(self._last_columns)
        rows = max(1, self.count // self.columns)
        total, slack = float(face_rows.sum()), BLOCK_SLACK if self.scale.steps.block else 1.0
        for group in places.groups(face_rows.reshape(rows, -1), last, self.shape):
            # The scale of a block format is known to a factor, and elements of a row share their operands' blocks.
            independent = np.sqrt(group.counts) if self.scale.steps.shared else group.counts
            allowed = (1 + PLACED * np.sqrt(2 / independent)) * slack**2
            excess = group.sums / group.counts / allowed
            at = int(np.argmax(excess))
            if excess.flat[at] > 1:
                mean = float(group.sums.flat[at] / group.counts.flat[at])
                rest = self.count - int(group.counts.flat[at])
                elsewhere = (total - float(group.sums.flat[at])) / rest if rest else 0.0
                return (
                    f"{group.name(at)}: expected a mean square of at most {float(allowed.flat[at]):.3g}, "
                    f"got {mean:.3g} ({elsewhere:.2g} elsewhere)"
                )
        return ""


def chunks(size: int, columns: int, most: int) -> list[tuple[int, int]]:
    """Ranges of a flat array of about `most` elements: whole rows, or parts of one in multiples of a face's width."""
    if columns > most:
        step = most // places.FACE * places.FACE
        starts = [row + part for row in range(0, size, columns) for part in range(0, columns, step)]
        return [(start, min(start + step, (start // columns + 1) * columns)) for start in starts]
    step = max(1, most // columns) * columns
    return [(start, min(start + step, size)) for start in range(0, size, step)]


def _face_sums(rows: np.ndarray) -> np.ndarray:
    """Sums over each 16 columns, the last of them perhaps over fewer."""
    whole = rows.shape[1] // places.FACE * places.FACE
    if whole == rows.shape[1]:
        return rows.reshape(len(rows), -1, places.FACE).sum(axis=2).astype(np.float32)
    return np.add.reduceat(rows, np.arange(0, rows.shape[1], places.FACE), axis=1).astype(np.float32)
