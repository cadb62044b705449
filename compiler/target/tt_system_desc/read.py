"""Reads a system descriptor and verifies it: a damaged one kills the process of the compiler that loads it.

Nothing that is read may lie outside the bytes, and no figure may be one that no system has. Every error is one line,
`<name>: expected X, got Y; try Z`.
"""

from __future__ import annotations

import struct
from typing import Any

from opscope.compiler.target.tt_system_desc.check import check_system
from opscope.compiler.target.tt_system_desc.fields import FIELDS, IDENTIFIER, PREFIX, Field, SystemDescriptor
from opscope.compiler.target.tt_system_desc.schema_hashes import build_of

_U16, _I32, _U32 = (struct.Struct(code) for code in ("<H", "<i", "<I"))
_SMALLEST = PREFIX + 4 + len(IDENTIFIER)
_MOST_BYTES, _MOST_ITEMS = 1 << 20, 1024
"""Published descriptors have 700 to 4,000 bytes; whatever is larger is something else."""
_AGAIN = "try a file of `opscope device system-desc BOARD -o FILE.ttsys`"


class DescriptorError(ValueError):
    """Bytes that are no system descriptor, or one that no build takes: one line."""


class _DamageError(ValueError):
    """Bytes that are no such flatbuffer."""


def read_descriptor(data: bytes, name: str, schema_hash: str | None = None) -> SystemDescriptor:
    """Returns a verified system descriptor; `name` is the file's, for messages.

    With `schema_hash` it has to be one for the build with that hash. Raises DescriptorError.
    """
    try:
        _check_frame(data)
        descriptor = _Reader(data).root()
        check_system(descriptor.system_desc)
    except ValueError as error:
        raise DescriptorError(f"{name}: {error}; {_AGAIN}") from None
    except struct.error:
        raise DescriptorError(f"{name}: expected a system descriptor, got offsets beyond its end; {_AGAIN}") from None
    _check_hash(descriptor.schema_hash, name, schema_hash)
    return descriptor


def _check_frame(data: bytes) -> None:
    if not _SMALLEST <= len(data) <= _MOST_BYTES:
        raise _DamageError(f"expected a system descriptor of {_SMALLEST} to {_MOST_BYTES:,} bytes, got {len(data):,}")
    if (identifier := data[PREFIX + 4 : _SMALLEST]) != IDENTIFIER:
        raise _DamageError(f"expected a system descriptor with identifier {IDENTIFIER.decode()}, got {identifier!r}")
    if (size := _U32.unpack_from(data)[0]) != len(data) - PREFIX:
        raise _DamageError(f"expected {size + PREFIX:,} bytes, as the file begins with, got {len(data):,}")


def _check_hash(stored: str, name: str, wanted: str | None) -> None:
    build = build_of(stored)
    if build is not None and build.other_layout:
        raise DescriptorError(
            f"{name}: expected a descriptor of jax-tt-plugin 0.1.1 or later, got one of {build.distribution} "
            f"{build.version}, whose tables are others; {_AGAIN}"
        )
    if len(stored) != 64 or set(stored) - set("0123456789abcdef"):
        raise DescriptorError(f"{name}: expected a schema hash of 64 hexadecimal digits, got {stored[:80]!r}; {_AGAIN}")
    if wanted is not None and stored != wanted:
        raise DescriptorError(
            f"{name}: expected schema hash {_described(wanted)}, got {_described(stored)}; try a descriptor of that "
            f"build, or a file of `opscope device system-desc BOARD --for {_for(wanted)} -o FILE.ttsys`"
        )


def _described(schema_hash: str) -> str:
    build = build_of(schema_hash)
    return f"{schema_hash[:12]}... ({f'{build.distribution} {build.version}' if build else 'an unknown build'})"


def _for(schema_hash: str) -> str:
    build = build_of(schema_hash)
    return f"{build.distribution}=={build.version}" if build else schema_hash


class _Reader:
    """Reads one buffer. Raises _DamageError, or struct.error for what lies outside it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def root(self) -> SystemDescriptor:
        """Returns the descriptor."""
        return self.table(self.pointed_to(PREFIX), SystemDescriptor)

    def table(self, at: int, cls: type) -> Any:
        """Returns the table at a place as an object of a class."""
        vtable = at - _I32.unpack_from(self.data, at)[0]
        if vtable < _SMALLEST or vtable % 2 or at % 4:
            raise _DamageError(f"expected a table of fields inside the file, got one at {vtable}")
        length, size = struct.unpack_from("<HH", self.data, vtable)
        if length < 4 or length % 2 or vtable + length > len(self.data) or size < 4 or at + size > len(self.data):
            raise _DamageError(f"expected tables inside the file, got {length} and {size} bytes at {at}")
        slots = FIELDS[cls]
        if length > 4 + 2 * len(slots):
            raise _DamageError(f"expected {len(slots)} fields at most in {cls.__name__}, got {(length - 4) // 2}")
        values = []
        for field in slots:
            where = 4 + 2 * field.slot
            offset = _U16.unpack_from(self.data, vtable + where)[0] if where < length else 0
            values.append(self.field(field, at, offset, size))
        return cls(*values)

    def field(self, field: Field, at: int, offset: int, size: int) -> Any:
        """Returns a field of a table of a size that lies at a place."""
        if not offset:
            if field.kind == "number":
                return 0
            raise _DamageError(f"expected {field.name}, got none")
        place = at + offset
        needed = field.item.size if field.is_inline else 4
        if offset < 4 or offset + needed > size or place % field.alignment:
            raise _DamageError(f"expected {field.name} inside its table, got it at {offset} of {size} bytes")
        if field.is_inline:
            numbers = field.item.unpack_from(self.data, place)
            return numbers[0] if field.kind == "number" else numbers
        start = self.pointed_to(place)
        if field.kind == "table":
            assert field.of is not None
            return self.table(start, field.of)
        return self.vector(field, start)

    def vector(self, field: Field, start: int) -> Any:
        """Returns the text or the vector at a place."""
        count = _U32.unpack_from(self.data, start)[0]
        item = {"text": 1, "tables": 4}.get(field.kind, field.item.size)
        if count > _MOST_ITEMS or start + 4 + count * item + (field.kind == "text") > len(self.data):
            raise _DamageError(f"expected {field.name} inside the file, got {count:,} items at {start}")
        first = start + 4
        if field.kind == "text":
            return self.text(field, first, count)
        if field.kind == "tables":
            assert field.of is not None
            return tuple(self.table(self.pointed_to(first + 4 * i), field.of) for i in range(count))
        items = tuple(field.item.iter_unpack(self.data[first : first + count * item]))
        return items if field.kind == "structs" else tuple(number for (number,) in items)

    def text(self, field: Field, first: int, count: int) -> str:
        """Returns the text of so many bytes at a place, which a zero follows."""
        if self.data[first + count]:
            raise _DamageError(f"expected a zero after {field.name}, got {self.data[first + count]}")
        try:
            text = self.data[first : first + count].decode()
        except UnicodeDecodeError:
            raise _DamageError(f"expected {field.name} to be a text, got other bytes") from None
        if not text.isprintable():
            raise _DamageError(f"expected {field.name} to be a printable text, got {text[:40]!r}")
        return text

    def pointed_to(self, place: int) -> int:
        """Returns the place that an offset points to."""
        start = place + _U32.unpack_from(self.data, place)[0]
        if start % 4 or start >= len(self.data):
            raise _DamageError(f"expected an offset inside the file, got {start} of {len(self.data)} bytes")
        return start
