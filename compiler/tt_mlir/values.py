"""Attributes of tt-mlir as values of Python; those that an op's mapping did not read are known afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.ir import Attribute

from opscope.compiler.target.formats import host_dtype
from opscope.compiler.tt_mlir.attributes import RawAttr, written
from opscope.compiler.tt_mlir.brackets import closing, pair, parts

HARMLESS: dict[str, str] = {
    "force": "whether a buffer is freed that others hold too: the simulator frees what nothing reads",
    "use_multicore": "on how many cores, not what",
    "pad_value": "what fills up tiles, which no result holds",
    "reallocate_halo_output": "where a buffer lies while an op runs",
    "config_tensors_in_dram": "where an op keeps its tables of addresses",
    "mesh_shape": "the chips of the module's mesh",
    "mesh_offset": "a place on the board",
}
"""Attributes that say nothing about values -> why."""
_SHAPE = re.compile(r"#ttnn\.shape<((?:\d+(?:x\d+)*)?)>")
_WORD = re.compile(r"#(?:ttcore|ttnn)\.\w+<(-?\w+)>")
_DENSE = re.compile(r"dense<(.*)> : tensor<((?:\d+x)*)(\w+)>", re.DOTALL)
_NUMBER = re.compile(r"true|false|0x[0-9A-Fa-f]+|-?\d+(?:\.\d*(?:[eE][-+]?\d+)?)?")
_ELEMENTS = {"si32": "i32", "si16": "i16", "si8": "i8"}


class Unknown(ValueError):
    """An attribute that no mapping understands."""


class Attributes:
    """The attributes of an op, which remember what was read."""

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        self._held, self._read = attributes, set[str]()

    def __getitem__(self, name: str) -> Any:
        """The value of an attribute. Raises Unknown if the op has none of this name."""
        if name not in self._held:
            raise Unknown(f"expected an attribute {name}, got {', '.join(self._held) or 'none'}")
        self._read.add(name)
        return value_of(self._held[name])

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or the default where there is none."""
        return self[name] if name in self._held else default

    def skip(self, *names: str) -> None:
        """Marks attributes as read whose values are known to follow from others, or to matter to time alone."""
        self._read.update(names)

    @property
    def unread(self) -> list[str]:
        """Attributes that were not read and may matter."""
        return [name for name in self._held if name not in self._read and name not in HARMLESS]


def value_of(attribute: Any) -> Any:
    """A number, text, tuple, name of a function, or a configuration's fields; arrays of constants as NumPy's."""
    match attribute:
        case b.IntegerAttr():
            return bool(attribute.value.data) if attribute.type == b.IntegerType(1) else attribute.value.data
        case b.FloatAttr():
            return attribute.value.data
        case b.StringAttr():
            return attribute.data
        case b.UnitAttr():
            return True
        case b.SymbolRefAttr():
            return attribute.string_value()
        case b.ArrayAttr():
            return tuple(map(value_of, attribute.data))
        case b.DenseArrayBase():
            return tuple(attribute.get_values())
        case RawAttr():
            return _of_text(attribute.text.data)
        case _:
            raise Unknown(f"expected an attribute that is understood, got {written(attribute)[:80]}")


def _of_text(text: str) -> Any:
    if (match := _SHAPE.fullmatch(text)) is not None:
        return tuple(int(size) for size in match[1].split("x") if size)
    if (match := _WORD.fullmatch(text)) is not None:
        return match[1]
    if text.startswith("dense<"):
        return constant(text)
    if text.startswith("#") and text.endswith(">") and " = " in text:
        return fields(text)
    raise Unknown(f"expected an attribute that is understood, got {text[:80]}")


def fields(text: str) -> dict[str, str]:
    """The fields of a configuration, `#ttnn.conv2d_config<a = 1, b = true>`, each as its text."""
    start = text.index("<")
    if closing(text, start) != len(text):
        raise Unknown(f"expected a configuration, got {text[:80]}")
    named = [pair(part) for part in parts(text[start + 1 : -1])]
    return {name: "" if value is None else value for name, value in named}


def constant(text: str) -> np.ndarray:
    """The elements of `dense<...> : tensor<...>`, in the type that it names."""
    match = _DENSE.fullmatch(text)
    if match is None:
        raise Unknown(f"expected the elements of a tensor, got {text[:80]}")
    words, shape = match[1].strip(), tuple(int(size) for size in match[2].split("x") if size)
    dtype = host_dtype(_ELEMENTS.get(match[3], match[3]))
    if words.startswith('"0x'):
        data = np.frombuffer(bytes.fromhex(words[3:-1]), np.uint8 if dtype == np.bool_ else dtype)
        if dtype == np.bool_:  # eight to a byte, where all are equal one byte
            whole = data[:1] if data.size == 1 and data[0] in (0, 255) else np.unpackbits(data, bitorder="little")
            data = (whole != 0)[: int(np.prod(shape, dtype=np.int64))]
    else:
        data = np.array([_number(word, dtype) for word in _NUMBER.findall(words)], dtype)
    return (np.full(shape, data[0]) if data.size == 1 else data.reshape(shape)).astype(dtype, copy=False)


def _number(word: str, dtype: np.dtype) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if word.startswith("0x"):
        bits = int(word, 16)
        if dtype.kind in "iub":
            return bits
        return np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)[0]
    return float(word) if dtype.kind not in "iub" else int(word)
