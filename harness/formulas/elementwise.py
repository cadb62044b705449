"""Elementwise ops as functions of float64 arrays, or of the machine's widest type, by their StableHLO name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opscope.harness.formulas import special

COMPARED = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
"""Direction of a `compare` -> its function."""

FORMULAS: dict[str, Callable[..., Any]] = {
    "stablehlo.abs": np.abs,
    "stablehlo.add": np.add,
    "stablehlo.atan2": np.arctan2,
    "stablehlo.cbrt": np.cbrt,
    "stablehlo.ceil": np.ceil,
    "stablehlo.cosine": np.cos,
    "stablehlo.divide": np.divide,
    "stablehlo.exponential": np.exp,
    "stablehlo.exponential_minus_one": np.expm1,
    "stablehlo.floor": np.floor,
    "stablehlo.log": np.log,
    "stablehlo.log_plus_one": np.log1p,
    "stablehlo.logistic": special.sigmoid,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.multiply": np.multiply,
    "stablehlo.negate": np.negative,
    "stablehlo.power": np.power,
    "stablehlo.rsqrt": lambda x: 1 / np.sqrt(x),
    "stablehlo.sine": np.sin,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.subtract": np.subtract,
    "stablehlo.tan": np.tan,
    "stablehlo.tanh": np.tanh,
    "chlo.acos": np.arccos,
    "chlo.acosh": np.arccosh,
    "chlo.asin": np.arcsin,
    "chlo.asinh": np.arcsinh,
    "chlo.atan": np.arctan,
    "chlo.atanh": np.arctanh,
    "chlo.cosh": np.cosh,
    "chlo.erf": special.erf,
    "chlo.bessel_i1e": special.i1e,
    "chlo.digamma": special.digamma,
    "chlo.erf_inv": special.erf_inv,
    "chlo.erfc": special.erfc,
    "chlo.lgamma": special.lgamma,
    "chlo.sinh": np.sinh,
    "chlo.square": np.square,
    "chlo.tan": np.tan,
}
"""Op -> its formula."""

CHOICES: dict[str, Callable[..., Any]] = {
    "stablehlo.clamp": lambda least, x, most: np.minimum(np.maximum(x, least), most),
    "stablehlo.remainder": np.fmod,
    "stablehlo.round_nearest_even": np.rint,
    "stablehlo.round_nearest_afz": lambda x: np.trunc(x) + np.where(np.abs(x - np.trunc(x)) >= 0.5, np.sign(x), 0.0),
    "stablehlo.select": np.where,
    "stablehlo.sign": np.sign,
}
"""Ops of the same kind that a body may have, and of which nobody doubts XLA's golden."""


ALIASES = {
    "exp": "exponential", "expm1": "exponential_minus_one", "log1p": "log_plus_one", "sin": "sine", "cos": "cosine",
    "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negate", "pow": "power", "max": "maximum",
    "min": "minimum", "round": "round_nearest_even", "typecast": "convert", "cast": "convert", "bitwise_and": "and",
    "bitwise_or": "or", "bitwise_xor": "xor", "bitwise_not": "not", "left_shift": "shift_left",
    "where": "select", "fmod": "remainder", "arctan2": "atan2", "true_divide": "divide", "absolute": "abs",
    **{f"arc{name}": f"a{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
}  # fmt: skip
"""What NumPy and others call an op -> StableHLO's name."""


def full_name(name: str) -> str:
    """The full name of an elementwise op; the text itself for anything else."""
    bare = ALIASES.get(name, name)
    known = [f"{dialect}.{bare}" for dialect in ("stablehlo", "chlo")]
    return next((each for each in (bare, *known) if each in FORMULAS or each in CHOICES), name)


def operands_of(formula: Callable[..., Any]) -> int:
    """How many operands a formula of `FORMULAS` takes."""
    return formula.nin if isinstance(formula, np.ufunc) else 1
