"""Attributes, types and locations of tt-mlir's text: MLIR's own as xDSL's, those of other dialects as their text."""

from __future__ import annotations

import io
import math
import re
from functools import cache, lru_cache
from typing import Any

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer

from opscope.compiler.dialects.ttnn import DeviceType
from opscope.compiler.ir.text import ToolPrinter, bits_to_float
from opscope.compiler.tt_mlir.brackets import pair, parts

_INTEGER = re.compile(r"(-?\d+)(?: : (?:([su]?)i(\d+)|index))?")
_FLOAT = re.compile(r"(-?\d+\.\d*(?:[eE][-+]?\d+)?|0x[0-9A-Fa-f]+) : (f32|f64|bf16|f16)")
_ARRAY = re.compile(r"array<(i1|i8|i16|i32|i64)(?:: ([^<>]*))?>")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
_SYMBOL = re.compile(r"@([\w$.-]+)")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([\w!.]+(?:<[^<>]*>)?)(?:, (.*))?>", re.DOTALL)
_ESCAPE = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|([\\"nt]))')
_PLAIN = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}
LONGEST = 4096
"""Signs of a text that is remembered with its attribute: elements of constants need not outlive their module."""
_FLOATS: dict[str, Any] = {"f32": b.f32, "f64": b.f64, "bf16": b.bf16, "f16": b.f16}
_SIGNEDNESS = {"": b.Signedness.SIGNLESS, "s": b.Signedness.SIGNED, "u": b.Signedness.UNSIGNED}


@irdl_attr_definition
class RawAttr(ParametrizedAttribute):
    """An attribute of a dialect that is kept as its text, aliases written out: `#ttnn.shape<1x8>`."""

    name = "tt_mlir.raw"
    text: b.StringAttr

    def print_parameters(self, printer: Printer) -> None:
        """Prints the text as a string, which is how xDSL's own printer shows it."""
        with printer.in_angle_brackets():
            printer.print_string_literal(self.text.data)


@irdl_attr_definition
class RawType(ParametrizedAttribute, TypeAttribute):
    """A type of a dialect that is kept as its text."""

    name = "tt_mlir.raw_type"
    text: b.StringAttr

    def print_parameters(self, printer: Printer) -> None:
        """Prints the text as a string, which is how xDSL's own printer shows it."""
        with printer.in_angle_brackets():
            printer.print_string_literal(self.text.data)


def raw(text: str) -> RawAttr:
    """The attribute of a text, for short ones the same each time."""
    return _raw(text) if len(text) <= LONGEST else RawAttr(b.StringAttr(text))


@lru_cache(maxsize=8192)
def _raw(text: str) -> RawAttr:
    return RawAttr(b.StringAttr(text))


def unescaped(text: str) -> str:
    """A string as it is, from how MLIR writes it between quotes."""
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]) if m[1] else _PLAIN[m[2]], text.encode())
    return unescaped.decode("utf-8", "surrogateescape")


def escaped(text: str) -> str:
    """A string between quotes, as MLIR writes it."""
    if text.isascii() and text.isprintable() and "\\" not in text and '"' not in text:
        return f'"{text}"'
    signs: list[str] = []
    for byte in text.encode("utf-8", "surrogateescape"):
        sign = chr(byte)
        if sign == "\\":
            signs.append("\\\\")
        elif 32 <= byte < 127 and sign != '"':
            signs.append(sign)
        else:
            signs.append(f"\\{byte:02X}")
    return f'"{"".join(signs)}"'


def attribute(text: str) -> Attribute:
    """The attribute of a text without aliases."""
    return _attribute(text) if len(text) <= LONGEST else _read(text)


@lru_cache(maxsize=8192)
def _attribute(text: str) -> Attribute:
    return _read(text)


def _read(text: str) -> Attribute:
    first = text[:1]
    if text in ("true", "false"):
        return b.IntegerAttr(int(text == "true"), 1)
    if first == '"' and (match := _STRING.fullmatch(text)):
        return b.StringAttr(unescaped(match[1]))
    if first == "[" and text[-1] == "]":
        return b.ArrayAttr([attribute(part) for part in parts(text[1:-1])])
    if first == "{" and text[-1] == "}":
        return b.DictionaryAttr(dictionary(text[1:-1]))
    if first == "@" and (match := _SYMBOL.fullmatch(text)):
        return b.SymbolRefAttr(match[1])
    if first == "a" and (match := _ARRAY.fullmatch(text)) and match[1] != "i1":
        numbers = [int(n) for n in (match[2] or "").split(",") if n.strip()]
        return b.DenseArrayBase.from_list(b.IntegerType(int(match[1][1:])), numbers)
    if (match := _FLOAT.fullmatch(text)) is not None:
        kind = _FLOATS[match[2]]
        value = bits_to_float(int(match[1], 16), kind) if match[1].startswith("0x") else float(match[1])
        return b.FloatAttr(value, kind)
    if (match := _INTEGER.fullmatch(text)) is not None and " : " in text:
        if match[3] is None:
            return b.IntegerAttr(int(match[1]), b.IndexType())
        return b.IntegerAttr(int(match[1]), b.IntegerType(int(match[3]), _SIGNEDNESS[match[2]]))
    if first in "t!" and (text.startswith(("tensor<", "!"))):
        return type_of(text)
    return raw(text)


def dictionary(text: str) -> dict[str, Attribute]:
    """The named attributes of `a = 1 : i32, b`; those without a value are units."""
    named = (pair(part) for part in parts(text))
    return {name: b.UnitAttr() if value is None else attribute(value) for name, value in named}


@lru_cache(maxsize=8192)
def type_of(text: str) -> Attribute:
    """The type of a text without aliases."""
    match = _TENSOR.fullmatch(text)
    if match is None:
        return DeviceType() if text == "!ttnn.device" else RawType(b.StringAttr(text))
    element = element_type(match[2])
    sizes = b.ArrayAttr([b.IntAttr(int(size)) for size in match[1].split("x") if size])
    return b.TensorType.new([sizes, element, raw(match[3]) if match[3] else b.NoneAttr()])


@cache
def element_type(text: str) -> Attribute:
    """The element type of a word: `f32`, `si32`, `bf16`; others as their text."""
    if text in _FLOATS:
        return _FLOATS[text]
    if match := re.fullmatch(r"([su]?)i(\d+)", text):
        return b.IntegerType(int(match[2]), _SIGNEDNESS[match[1]])
    return RawType(b.StringAttr(text))


def written(value: Any) -> str:
    """The text of an attribute or type, as MLIR's printer writes it, without aliases."""
    match value:
        case RawAttr() | RawType():
            return value.text.data
        case b.StringAttr():
            return escaped(value.data)
        case b.IntegerAttr() if value.type == b.IntegerType(1):
            return "true" if value.value.data else "false"
        case b.IntegerAttr():
            return f"{value.value.data} : {value.type}"
        case b.ArrayAttr():
            return f"[{', '.join(map(written, value.data))}]"
        case b.DictionaryAttr():
            return f"{{{named(value.data)}}}"
        case b.UnitAttr():
            return "unit"
        case b.SymbolRefAttr():
            return f"@{value.string_value()}"
        case b.DenseArrayBase():
            numbers = ", ".join(map(str, value.get_values()))
            return f"array<{value.elt_type}{f': {numbers}' if numbers else ''}>"
        case b.TensorType():
            sizes = "".join(f"{size}x" for size in value.get_shape())
            encoding = "" if isinstance(value.encoding, b.NoneAttr) else f", {written(value.encoding)}"
            return f"tensor<{sizes}{written(value.element_type)}{encoding}>"
        case DeviceType():
            return "!ttnn.device"
        case b.FloatAttr():
            return f"{_float(value)} : {value.type}"
        case _:
            stream = io.StringIO()
            ToolPrinter(stream=stream).print_attribute(value)
            return stream.getvalue()


def _float(value: Any) -> str:
    """A float as MLIR prints it: as its bits where it is not finite, or where all of its digits are a whole number."""
    if math.isfinite(value.value.data):
        stream = io.StringIO()
        ToolPrinter(stream=stream).print_float(value.value.data, value.type)
        words = stream.getvalue()
        if not words.endswith(".0"):
            return words
    bits = int.from_bytes(value.type.pack([value.value.data]), "little")
    return f"0x{bits:0{value.type.compile_time_size * 2}X}"


def named(attributes: Any) -> str:
    """Named attributes between commas, units by their name alone."""
    return ", ".join(
        name if isinstance(value, b.UnitAttr) else f"{name} = {written(value)}" for name, value in attributes.items()
    )
