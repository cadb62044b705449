"""Writes a system descriptor as a flatbuffer with its size in front.

The layout is FlatBuffers' own (flatbuffers.dev, "Internals"): a table, then what it points to. Every field is written,
also one with its default. Numbers are aligned from the first byte of the file on, as verifiers ask.
"""

from __future__ import annotations

import struct
from typing import Any

from opscope.compiler.target.tt_system_desc.fields import FIELDS, IDENTIFIER, PREFIX, Field, SystemDescriptor

_U32, _I32 = struct.Struct("<I"), struct.Struct("<i")
_LARGEST = 8
"""Bytes of the largest number: tables and the file end at a multiple of it."""


def descriptor_bytes(descriptor: SystemDescriptor) -> bytes:
    """Returns the bytes of a descriptor. Raises struct.error where a number does not fit into its field."""
    out = bytearray(PREFIX + 4 + len(IDENTIFIER))
    out[PREFIX + 4 :] = IDENTIFIER
    _point(out, PREFIX, _table(out, descriptor))
    _align(out, _LARGEST)
    _U32.pack_into(out, 0, len(out) - PREFIX)
    return bytes(out)


def _table(out: bytearray, value: Any) -> int:
    """Appends a table and all that it points to; the table's place."""
    fields = FIELDS[type(value)]
    offsets, size = _offsets(fields)
    _align(out, 2)
    vtable = len(out)
    out += struct.pack(f"<{2 + len(fields)}H", 4 + 2 * len(fields), size, *(offsets[field.name] for field in fields))
    _align(out, _LARGEST)
    at = len(out)
    out += bytes(size)
    _I32.pack_into(out, at, at - vtable)
    for field in fields:
        place, item = at + offsets[field.name], getattr(value, field.name)
        if field.is_inline:
            field.item.pack_into(out, place, *_numbers(item))
        else:
            _point(out, place, _pointed_to(out, field, item))
    return at


def _offsets(fields: tuple[Field, ...]) -> tuple[dict[str, int], int]:
    """Where each field lies in its table, the largest first so that each is aligned; and the table's size."""
    offsets, at = {}, 4
    for field in sorted(fields, key=lambda field: -field.alignment):
        at += -at % field.alignment
        offsets[field.name] = at
        at += field.item.size if field.is_inline else 4
    return offsets, at


def _pointed_to(out: bytearray, field: Field, item: Any) -> int:
    """Appends a text, a table or a vector; its place."""
    if field.kind == "table":
        return _table(out, item)
    _align(out, 4)
    start = len(out)
    if field.kind == "text":
        data = item.encode()
        out += _U32.pack(len(data)) + data + b"\0"
        return start
    out += _U32.pack(len(item))
    if field.kind == "tables":
        out += bytes(4 * len(item))
        for number, each in enumerate(item):
            _point(out, start + 4 + 4 * number, _table(out, each))
        return start
    for each in item:
        out += field.item.pack(*_numbers(each))
    return start


def _numbers(item: int | tuple[int, ...]) -> tuple[int, ...]:
    return item if isinstance(item, tuple) else (item,)


def _point(out: bytearray, place: int, there: int) -> None:
    _U32.pack_into(out, place, there - place)


def _align(out: bytearray, size: int) -> None:
    out += bytes(-len(out) % size)
