"""The op table of `suite:ops`: rows of (function, types, ranks, operands), from which its cases follow.

A case is one call of one function on operands of one type and rank, drawn inside its domain. Functions are `jax.lax`'s;
what it cannot write is written as StableHLO text (`opscope.models.op_texts`). This module imports no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

FLOAT = "float"
"""Stands for the type that the suite is built with."""
FLOATS = (FLOAT, "float16")
INTS = ("int32", "uint32", "int16", "int8", "uint8")
SIGNED = ("int32", "int16", "int8")
NUMBERS = (*FLOATS, *INTS)
SHAPES = ((), (33,), (5, 40), (2, 3, 4, 33))
"""One shape per rank 0, 1, 2 and 4: no side fills a tile."""
FEW = ((5, 40),)

Function = Callable[..., Any]


@dataclass(frozen=True)
class Operand:
    """One operand of a case."""

    shape: tuple[int, ...]
    dtype: str
    distribution: str


@dataclass(frozen=True)
class Case:
    """One op on one set of operands."""

    name: str
    function: Function
    operands: tuple[Operand, ...]


POSITIVE, INSIDE, AWAY, ABOVE = "uniform:0.1:4", "uniform:-0.9:0.9", "magnitude:0.5:2", "uniform:1.1:4"

UNARY: dict[str, str] = {
    "abs": "",
    "neg": "",
    "sign": "",
    "floor": "",
    "ceil": "",
    "round": "",
    "exp": "",
    "expm1": "",
    "tanh": "",
    "sin": "",
    "cos": "",
    "tan": INSIDE,
    "is_finite": "",
    "cbrt": "",
    "square": "",
    "erf": "",
    "erfc": "",
    "erf_inv": INSIDE,
    "asin": INSIDE,
    "acos": INSIDE,
    "atan": "",
    "sinh": "",
    "cosh": "",
    "asinh": "",
    "acosh": ABOVE,
    "atanh": INSIDE,
    "log": POSITIVE,
    "log1p": POSITIVE,
    "sqrt": POSITIVE,
    "rsqrt": POSITIVE,
    "lgamma": POSITIVE,
    "digamma": POSITIVE,
    "bessel_i1e": "",
}
"""`jax.lax` name -> distribution of the operand; empty for a normal one."""
UNARY_INT = ("neg", "sign", "square", "population_count", "clz", "bitwise_not")
BINARY: dict[str, tuple[str, str]] = {
    "add": ("", ""),
    "sub": ("", ""),
    "mul": ("", ""),
    "div": ("", AWAY),
    "rem": ("", AWAY),
    "max": ("", ""),
    "min": ("", ""),
    "pow": (POSITIVE, ""),
    "atan2": ("", AWAY),
    "nextafter": ("", ""),
}
BINARY_INT: dict[str, str] = {
    "add": "",
    "sub": "",
    "mul": "",
    "div": "int:1:8",
    "rem": "int:1:8",
    "max": "",
    "min": "",
    "bitwise_and": "",
    "bitwise_or": "",
    "bitwise_xor": "",
    "shift_left": "int:0:7",
    "shift_right_logical": "int:0:7",
    "shift_right_arithmetic": "int:0:7",
}
"""Name -> distribution of the second operand."""
BOOLEAN = ("bitwise_and", "bitwise_or", "bitwise_xor", "max", "min")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def default_distribution(dtype: str) -> str:
    """Returns the distribution for operands of a type, unless the op needs another one.

    Integers are small, so that no product leaves 32 bits.
    """
    if dtype == "bool":
        return "bool:0.5"
    if dtype in INTS:
        return "int:0:12" if dtype.startswith("u") else "int:-10:11"
    return "normal:1"


def case(
    name: str, function: Function, *operands: tuple[tuple[int, ...], str] | tuple[tuple[int, ...], str, str]
) -> Case:
    """A case of operands given as (shape, type) or (shape, type, distribution); empty stands for the type's default."""
    described = (Operand(o[0], o[1], (o[2] if len(o) > 2 else "") or default_distribution(o[1])) for o in operands)
    return Case(name, function, tuple(described))


def _each(types: Iterable[str], wide: tuple[str, ...] = (FLOAT, "int32")) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(type, shape) of an elementwise op: all ranks for the types in `wide`, one for the others."""
    for dtype in types:
        for shape in SHAPES if dtype in wide else FEW:
            yield dtype, shape


def elementwise(lax: Any) -> Iterator[Case]:
    """Cases of the elementwise rows; `lax` is `jax.lax`."""

    def row(name: str, types: Iterable[str], *distributions: str) -> Iterator[Case]:
        for dtype, shape in _each(types):
            label = f"{name}.{dtype}.{len(shape)}"
            yield case(label, getattr(lax, name), *((shape, dtype, distribution) for distribution in distributions))

    for name, distribution in UNARY.items():
        yield from row(name, FLOATS, distribution)
    for name in UNARY_INT:
        yield from row(name, INTS, "")
    yield from row("abs", SIGNED, "")
    for name, distributions in BINARY.items():
        yield from row(name, (FLOAT,) if name == "nextafter" else FLOATS, *distributions)
    for name, distribution in BINARY_INT.items():
        yield from row(name, INTS, "", distribution)
    if hasattr(lax, "mulhi"):  # not in JAX 0.10.1
        yield from row("mulhi", ("int32", "uint32"), "int:0:2147483647", "int:0:2147483647")
    for name in BOOLEAN:
        yield from row(name, ("bool",), "", "")
    yield from row("bitwise_not", ("bool",), "")
    for name in COMPARE:
        yield from row(name, (*NUMBERS, "bool"), "", "")
    for dtype, shape in _each((*NUMBERS, "bool")):
        label = f"{dtype}.{len(shape)}"
        yield case(f"select.{label}", lax.select, (shape, "bool"), (shape, dtype), (shape, dtype))
        if dtype != "bool":
            distributions = ("uniform:-1:-0.5", "uniform:0.5:1") if dtype in FLOATS else ("int:0:3", "int:3:6")
            operands = ((shape, dtype, distributions[0]), (shape, dtype), (shape, dtype, distributions[1]))
            yield case(f"clamp.{label}", lax.clamp, *operands)


def cases(lax: Any, numpy: Any) -> Iterator[Case]:
    """All cases of the suite; `lax` and `numpy` are `jax.lax` and `jax.numpy`."""
    from opscope.models import op_cases_shaped, op_texts

    yield from elementwise(lax)
    yield from op_cases_shaped.cases(lax, numpy)
    yield from op_texts.cases(numpy)
