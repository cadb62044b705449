"""How an op's attributes are written in IR and read back as plain Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute

from opscope.compiler.errors import CompilerInputError

SI8 = IntegerType(8, Signedness.SIGNED)
SI32 = IntegerType(32, Signedness.SIGNED)
SI64 = IntegerType(64, Signedness.SIGNED)
UI32 = IntegerType(32, Signedness.UNSIGNED)


@dataclass(frozen=True)
class Codec:
    """One way of writing a Python value as an attribute; `decode(encode(x)) == x`."""

    name: str
    encode: Callable[[Any], Attribute]
    decode: Callable[[Any], Any]


def _array(element: IntegerType, values: Iterable[int]) -> DenseArrayBase:
    """Integers as an array. Raises CompilerInputError for one that the type does not have: a module's may be larger."""
    numbers = [int(value) for value in values]
    low, high = element.value_range()
    for number in numbers:
        if not low <= number < high:
            raise CompilerInputError(f"module: expected an attribute's numbers to fit {element}, got {number}")
    return DenseArrayBase.from_list(element, numbers)


def _ints(element: IntegerType) -> Codec:
    return Codec(
        f"array<{element}>",
        lambda values: _array(element, values),
        lambda attr: tuple(int(v) for v in attr.get_values()),
    )


def _int(element: IntegerType) -> Codec:
    return Codec(str(element), lambda value: IntegerAttr(int(value), element), lambda attr: int(attr.value.data))


def _by_dim(edges: tuple[int, ...]) -> tuple[int, ...]:
    if len(edges) % 2:  # one number for both edges of each dim
        return edges
    half = len(edges) // 2
    return tuple(edge for pair in zip(edges[:half], edges[half:], strict=True) for edge in pair)


I64S = _ints(i64)
I32S = _ints(i32)
EDGES = Codec(
    "array<i32> of every dim's low edge, then every high one: top, left, bottom, right",
    lambda values: _array(i32, values if len(values) % 2 else [*values[0::2], *values[1::2]]),
    lambda attr: _by_dim(tuple(int(v) for v in attr.get_values())),
)
"""How tt-mlir writes the padding of windows; in Python a dim's two edges stand together."""
I32 = _int(i32)
I32_OR_ONE = Codec(
    "i32, or array<i32> of one",
    I32.encode,
    lambda attr: I32.decode(attr) if isinstance(attr, IntegerAttr) else I32S.decode(attr)[0],
)
"""A number for the only dim; older texts have an array of one."""
I64 = _int(i64)
U32 = _int(UI32)
S8 = _int(SI8)
S32 = _int(SI32)
S64 = _int(SI64)
BOOL = Codec("bool", lambda value: BoolAttr.from_bool(bool(value)), lambda attr: bool(attr.value.data))
F32 = Codec("f32", lambda value: FloatAttr(float(value), f32), lambda attr: float(attr.value.data))
TEXT = Codec("string", StringAttr, lambda attr: attr.data)
RAW = Codec("attribute", lambda attr: attr, lambda attr: attr)
"""The attribute itself, for dense elements and fill values."""
I32LIST = Codec(
    "[i32]",
    lambda values: ArrayAttr([IntegerAttr(int(v), i32) for v in values]),
    lambda attr: tuple(int(v.value.data) for v in attr.data),
)
SYMBOL = Codec("@name", SymbolRefAttr, lambda attr: attr.root_reference.data)
SYMBOLS = Codec(
    "[@name]",
    lambda names: ArrayAttr([SymbolRefAttr(name) for name in names]),
    lambda attr: tuple(name.root_reference.data for name in attr.data),
)
"""Functions of the same module that an op calls."""
