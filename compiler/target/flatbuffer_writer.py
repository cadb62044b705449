"""Writes dataclasses as a flatbuffer, many times as fast as the generated classes, which take a call for every number.

The layout is FlatBuffers' own (flatbuffers.dev, "Internals"), from the root on: a table, then what it points to. Every
field is written, also one with its default, so that all tables of a class have one vtable. Nothing else is shared.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from opscope.compiler.target.flatbuffer_reader import Slot

_U32, _I32, _HEADER = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<I4s")
_NUMBERS = {"int": "q", "float": "d", "uint32": "I", "bool": "?"}
_KEPT = frozenset({"str", "int", "uint32", "bool", "numbers", "names"})
"""Kinds of fields that are the same bytes wherever equal: no floats, as zeros of both signs are equal, and no tables,
which say how far away their vtable is. Bytes may be many."""
_MOST_KEPT, _LONGEST_KEPT = 4096, 512
"""So many objects of so many bytes are kept at most."""
_FEW = 8
"""Integers of a vector that is written often, as most shapes and lists of operands are."""
_ZEROS = tuple(map(bytes, range(8)))
_LARGEST = (1 << 31) - 1
"""An offset of the format has 31 bits."""


@dataclass(frozen=True)
class _Layout:
    """The bytes of a class's tables, after the distance to the vtable."""

    vtable: bytes
    numbers: struct.Struct
    """Of the numbers that the table itself holds; the places of offsets are left out."""
    named: tuple[str, ...]
    """The fields of `numbers`, in their order; the code of a union is named like the union."""
    unions: frozenset[str]
    parts: tuple[tuple[int, Slot], ...]
    """What the table points to, with the places of the offsets in the table."""
    kept: bool
    """Whether the bytes of an object are those of every equal object, wherever they stand."""


def layout_of(slots: Sequence[Slot]) -> _Layout:
    """Orders the fields of a class by size, the largest first, so that each is aligned."""
    sizes = {"int": 8, "float": 8, "bool": 1}
    fields = [(sizes.get(slot.kind, 4), slot.place, slot.kind, slot) for slot in slots]
    fields += [(1, slot.place - 2, "code", slot) for slot in slots if slot.kind == "union"]
    fields.sort(key=lambda field: -field[0])
    at, code, named, parts = 4, "<", [], []
    offsets = {}
    for size, place, kind, slot in fields:
        gap = -at % size
        offsets[place] = at = at + gap
        if kind in _NUMBERS or kind == "code":
            code += f"{gap}x{_NUMBERS.get(kind, 'B')}"
            named.append(slot.name)
        else:
            code += f"{gap + size}x"
            parts.append((at, slot))
        at += size
    count = max(offsets, default=2) // 2 - 1
    entries = [offsets.get(4 + 2 * number, 0) for number in range(count)]
    vtable = struct.pack(f"<{count + 2}H", 4 + 2 * count, at, *entries)
    unions = frozenset(slot.name for slot in slots if slot.kind == "union")
    kept = all(slot.kind in _KEPT and slot.of is not float for slot in slots)
    return _Layout(vtable, struct.Struct(code), tuple(named), unions, tuple(parts), kept)


class FlatbufferWriter:
    """Writes objects; each call of `bytes_of` makes one buffer."""

    def __init__(self, slots: Callable[[type], tuple[Slot, ...]], codes: Mapping[type, int]) -> None:
        """`slots` describes a class; `codes` has the code of each class of a union."""
        self.layout = cache(lambda cls: layout_of(slots(cls)))
        self.codes = codes
        self.kept: dict[Any, bytes] = {}
        """Objects that have been written, and their tables after the distance to the vtable, with what they point to.
        Most programs have the same few tensors, and kernels without parameters."""

    def bytes_of(self, root: Any, identifier: bytes) -> bytes:
        """The flatbuffer of an object. Raises struct.error where a number does not fit, OverflowError above 2 GiB."""
        out = bytearray(_HEADER.size)
        at = self._table(out, root, {})
        _HEADER.pack_into(out, 0, at, identifier)
        if len(out) > _LARGEST:
            raise OverflowError(f"flatbuffer: expected at most {_LARGEST} bytes, got {len(out)}")
        return bytes(out)

    def _table(self, out: bytearray, value: Any, vtables: dict[type, int]) -> int:
        """Appends a table and all that it points to; the table's place."""
        cls = type(value)
        layout = self.layout(cls)
        vtable = vtables.get(cls)
        if vtable is None:
            out += bytes(len(out) % 2)
            vtable = vtables[cls] = len(out)
            out += layout.vtable
        out += _ZEROS[-len(out) % 8]
        at = len(out)
        out += _I32.pack(at - vtable)
        if not layout.kept:
            self._fields(out, value, layout, vtables)
        elif (fields := self.kept.get(value)) is not None:
            out += fields
        else:
            self._fields(out, value, layout, vtables)
            if len(out) - at <= _LONGEST_KEPT:
                if len(self.kept) >= _MOST_KEPT:
                    self.kept.clear()
                self.kept[value] = bytes(out[at + 4 :])
        return at

    def _fields(self, out: bytearray, value: Any, layout: _Layout, vtables: dict[type, int]) -> None:
        """Appends a table after the distance to its vtable, and all that it points to."""
        at = len(out) - 4
        numbers = [getattr(value, name) for name in layout.named]
        if layout.unions:
            numbers = [
                self.codes[type(number)] if name in layout.unions else number
                for name, number in zip(layout.named, numbers, strict=True)
            ]
        out += layout.numbers.pack(*numbers)
        for place, slot in layout.parts:
            item, here = getattr(value, slot.name), at + place
            kind = slot.kind
            if kind == "str":
                out += _ZEROS[-len(out) % 4]
                start = len(out)
                out += _text(item)
            elif kind == "numbers":
                out += _ZEROS[(4 - len(out)) % 8]  # the numbers after their count are aligned
                start = len(out)
                out += _integers(item) if slot.of is int else struct.pack(f"<I{len(item)}d", len(item), *item)
            elif kind in ("table", "union"):
                start = self._table(out, item, vtables)
            else:
                start = self._vector(out, kind, item, vtables)
            _U32.pack_into(out, here, start - here)

    def _vector(self, out: bytearray, kind: str, items: Any, vtables: dict[type, int]) -> int:
        """Appends bytes, strings or tables after their number; its place."""
        out += _ZEROS[-len(out) % 4]
        start = len(out)
        out += _U32.pack(len(items))
        if kind == "bytes":
            out += items
            return start
        out += bytes(4 * len(items))
        for number, item in enumerate(items):
            here = start + 4 + 4 * number
            if kind == "tables":
                there = self._table(out, item, vtables)
            else:
                out += _ZEROS[-len(out) % 4]
                there = len(out)
                out += _text(item)
            _U32.pack_into(out, here, there - here)
        return start


@lru_cache(maxsize=1024)
def _text(text: str) -> bytes:
    """The bytes of a string, which ends with a zero that its length does not count."""
    data = text.encode()
    return _U32.pack(len(data)) + data + b"\0"


def _integers(numbers: Sequence[int]) -> bytes:
    """The bytes of a vector of integers."""
    return _few(tuple(numbers)) if len(numbers) <= _FEW else struct.pack(f"<I{len(numbers)}q", len(numbers), *numbers)


@lru_cache(maxsize=1024)
def _few(numbers: tuple[int, ...]) -> bytes:
    return struct.pack(f"<I{len(numbers)}q", len(numbers), *numbers)
