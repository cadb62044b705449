"""Which part of an op's domain some inputs reached: a verdict says nothing of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opscope.harness.formulas.nearest import precision
from opscope.harness.prepare.operand_sizes import is_float

CLASSES = ("zero", "negative zero", "denormal", "infinity", "NaN", "negative", "positive")


@dataclass(frozen=True)
class Reach:
    """What one operand reached of its element type."""

    patterns: int | None
    """Different values of the 65,536 (256) of a type of 16 (8) bits; None of wider types."""
    possible: int
    """How many there are."""
    exponents: int
    """Binades of normal numbers in which a value lies."""
    of_exponents: int
    """How many the type has."""
    classes: tuple[str, ...]
    """Those of CLASSES that are there."""
    smallest: float
    largest: float
    """Range of the finite values; NaN if there is none."""

    @property
    def share(self) -> float:
        """The share of the domain that was reached: of all values of a narrow type, else of its binades."""
        return self.exponents / self.of_exponents if self.patterns is None else self.patterns / self.possible

    def __str__(self) -> str:
        missing = ", ".join(each for each in CLASSES if each not in self.classes)
        seen = f"{self.exponents} of {self.of_exponents} exponents"
        if self.patterns is not None:
            seen = f"{self.share:.3g} of all values ({self.patterns:,}), {seen}".replace(
                "1 of all values", "all values"
            )
        return f"{self.smallest:.4g} to {self.largest:.4g}, {seen}" + (f"; no {missing}" if missing else "")


def reach(inputs: Sequence[np.ndarray]) -> tuple[Reach | None, ...]:
    """What each operand reached; None of integers and complex numbers."""
    with np.errstate(invalid="ignore"):  # bfloat16 casts a NaN with a warning
        return tuple(_of(x) if is_float(x) and x.dtype.kind != "c" and x.size else None for x in inputs)


def _of(x: np.ndarray) -> Reach:
    _, least = precision(x.dtype)
    if x.dtype.itemsize <= 2:
        codes = np.unique(np.ascontiguousarray(x).reshape(-1).view(f"u{x.dtype.itemsize}"))
        values, patterns = codes.view(x.dtype).astype(np.float64), int(codes.size)
    else:
        values, patterns = np.ravel(x).astype(np.float64), None
    finite = values[np.isfinite(values)]
    size = np.abs(finite)
    tiny = 2.0**least
    _, exponents = np.frexp(size[size >= tiny])
    present = {
        "zero": bool(((values == 0) & ~np.signbit(values)).any()),
        "negative zero": bool(((values == 0) & np.signbit(values)).any()),
        "denormal": bool(((size < tiny) & (size > 0)).any()),
        "infinity": bool(np.isinf(values).any()),
        "NaN": bool(np.isnan(values).any()),
        "negative": bool((finite < 0).any()),
        "positive": bool((finite > 0).any()),
    }
    return Reach(
        patterns,
        1 << (8 * x.dtype.itemsize),
        int(np.unique(exponents).size),
        2 * (1 - least),
        tuple(name for name in CLASSES if present[name]),
        float(finite.min()) if finite.size else float("nan"),
        float(finite.max()) if finite.size else float("nan"),
    )
