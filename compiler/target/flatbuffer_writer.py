"""Writes dataclasses as a flatbuffer, many times as fast as the generated classes, which take a call for every number.

The layout is FlatBuffers' own (flatbuffers.dev, "Internals"), from the root on: a table, then what it points to. Every
field is written, also one with its default, so that all tables of a class have one vtable. Nothing else is shared.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from opscope.compiler.target.flatbuffer_reader import Slot

_U32, _I32, _HEADER = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<I4s")
_NUMBERS = {"int": "q", "float": "d", "uint32": "I", "bool": "?"}
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
    return _Layout(vtable, struct.Struct(code), tuple(named), unions, tuple(parts))


class FlatbufferWriter:
    """Writes objects; each call of `bytes_of` makes one buffer."""

    def __init__(self, slots: Callable[[type], tuple[Slot, ...]], codes: Mapping[type, int]) -> None:
        """`slots` describes a class; `codes` has the code of each class of a union."""
        self.layout = cache(lambda cls: layout_of(slots(cls)))
        self.codes = codes

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
        out += bytes(-len(out) % 8)
        at = len(out)
        numbers = [getattr(value, name) for name in layout.named]
        if layout.unions:
            numbers = [
                self.codes[type(number)] if name in layout.unions else number
                for name, number in zip(layout.named, numbers, strict=True)
            ]
        out += _I32.pack(at - vtable)
        out += layout.numbers.pack(*numbers)
        for place, slot in layout.parts:
            item, here = getattr(value, slot.name), at + place
            start = self._part(out, slot, item, vtables)
            _U32.pack_into(out, here, start - here)
        return at

    def _part(self, out: bytearray, slot: Slot, item: Any, vtables: dict[type, int]) -> int:
        """Appends what one field points to; its place."""
        kind = slot.kind
        if kind in ("table", "union"):
            return self._table(out, item, vtables)
        if kind == "str":
            return _text(out, item)
        if kind == "numbers":
            out += bytes((4 - len(out)) % 8)  # the numbers after their count are aligned
            start, code = len(out), "q" if slot.of is int else "d"
            out += struct.pack(f"<I{len(item)}{code}", len(item), *item)
            return start
        out += bytes(-len(out) % 4)
        start = len(out)
        out += _U32.pack(len(item))
        if kind == "bytes":
            out += item
            return start
        out += bytes(4 * len(item))
        for number, part in enumerate(item):
            here = start + 4 + 4 * number
            there = self._table(out, part, vtables) if kind == "tables" else _text(out, part)
            _U32.pack_into(out, here, there - here)
        return start


def _text(out: bytearray, text: str) -> int:
    """Appends a string, which ends with a zero that its length does not count; its place."""
    out += bytes(-len(out) % 4)
    start, data = len(out), text.encode()
    out += _U32.pack(len(data)) + data + b"\0"
    return start
