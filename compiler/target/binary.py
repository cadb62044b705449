"""The device binary as bytes: a frame (magic, version, length, CRC-32) around a flatbuffer of `schema.fbs`.

`write(binary)` and `read(data)` walk the dataclasses of `program.py`; the flatbuffer's tables have the same fields,
so that a new field is one line there and one, in the same order, in the schema. FlatBuffers has no verifier in Python:
whatever goes wrong while decoding becomes one `BinaryError`.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import typing
import zlib
from typing import Any

from opscope.compiler.target import formats, program, schema
from opscope.compiler.target.flatbuffer_reader import FlatbufferReader, Plans, Slot
from opscope.compiler.target.flatbuffer_writer import FlatbufferWriter
from opscope.compiler.target.program import Binary

MAGIC = b"OPSCOPE\x00"
VERSION = 1
IDENTIFIER = b"OPSC"
"""Of the flatbuffer in the frame."""
_FRAME = struct.Struct("<8sHHQI")
"""Magic, version, flags (0), length of the flatbuffer, its CRC-32."""

_DECODE_ERRORS = (
    struct.error,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    OverflowError,
    MemoryError,
    AssertionError,
    RecursionError,
)


class BinaryError(ValueError):
    """The bytes are no device binary that this version can read; `<where>: expected X, got Y; try Z`."""


PARAMS: tuple[type, ...] = typing.get_args(program.Params)
"""Parameter classes in the order of the schema's union (its type codes are this index + 1)."""
_CODE = {cls: code for code, cls in enumerate(PARAMS, start=1)}
_UNION = dict(enumerate(PARAMS, start=1))


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    attribute: str
    kind: str
    """`str`, `int`, `float`, `bool`, `bytes`, `numbers`, `names`, `table`, `tables`, `union`."""
    of: Any = None
    count: int | None = None
    """How many `numbers` it has; None for any."""


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


@functools.cache
def _fields(cls: type) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(cls)
    plan: list[_Field] = []
    for field in dataclasses.fields(cls):
        hint, kind, of, count = hints[field.name], "", None, None
        if hint in (str, int, float, bool, bytes):
            kind = hint.__name__
        elif typing.get_origin(hint) is tuple:
            items = typing.get_args(hint)
            item, count = items[0], None if Ellipsis in items else len(items)
            kind, of = ("tables", item) if dataclasses.is_dataclass(item) else ("numbers", item)
            kind = "names" if item is str else kind
        elif dataclasses.is_dataclass(hint):
            kind, of = "table", hint
        elif hint == program.Params:
            kind = "union"
        else:
            raise TypeError(f"{cls.__name__}.{field.name}: expected a type that the schema has, got {hint}")
        plan.append(_Field(field.name, _camel(field.name), kind, of, count))
    return tuple(plan)


@functools.cache
def _slots(cls: type) -> tuple[Slot, ...]:
    """Returns the fields of a class in the flatbuffer: in the order of the schema, a union after its code."""
    numbers, place, slots = schema.numbers(), 4, []
    for field in _fields(cls):
        place += 2 * (field.kind == "union")
        number = numbers.get((cls.__name__, field.name))
        kind = "uint32" if number is not None and number.type == "uint32" else field.kind
        slots.append(Slot(field.name, place, kind, field.of, number and number.absent, field.count))
        place += 2
    return tuple(slots)


_WRITER = FlatbufferWriter(_slots, _CODE)
_PLANS = Plans(_slots)


def write(binary: Binary) -> bytes:
    """The bytes of `binary`. Raises OverflowError or struct.error where a number does not fit 64 bits."""
    return frame(_WRITER.bytes_of(binary, IDENTIFIER))


def frame(body: bytes) -> bytes:
    """`body` with the file's header in front: what `read` checks before it decodes."""
    return _FRAME.pack(MAGIC, VERSION, 0, len(body), zlib.crc32(body)) + body


def unframe(data: bytes) -> bytes:
    """The flatbuffer inside `data`. Raises BinaryError for a wrong magic, version, length or checksum."""
    if len(data) < _FRAME.size:
        raise BinaryError(f"binary: expected at least {_FRAME.size} bytes, got {len(data)}; try `opscope compile`")
    magic, version, _, length, crc = _FRAME.unpack_from(data)
    if magic != MAGIC:
        raise BinaryError(f"binary: expected a file that starts with {MAGIC!r}, got {magic!r}; try a .ttnn file")
    if version != VERSION:
        raise BinaryError(f"binary: expected version {VERSION}, got {version}; try `opscope compile`")
    body = data[_FRAME.size :]
    if len(body) != length:
        raise BinaryError(f"binary: expected {length} bytes after the header, got {len(body)}; try `opscope compile`")
    if zlib.crc32(body) != crc:
        raise BinaryError("binary: expected the checksum in its header, got another; try `opscope compile`")
    return body


def read(data: bytes) -> Binary:
    """The program in `data`. Raises BinaryError, and nothing else, for bytes that are no such program."""
    body = unframe(bytes(data))
    if body[4:8] != IDENTIFIER:
        raise BinaryError(f"binary: expected file identifier {IDENTIFIER!r}, got {body[4:8]!r}; try `opscope compile`")
    try:
        binary = FlatbufferReader(body, _PLANS, _UNION).root(Binary)
        _check(binary)
    except _DECODE_ERRORS as error:
        raise BinaryError(f"binary: expected a readable flatbuffer, got {error!r}; try `opscope compile`") from error
    return binary


def _check(binary: Binary) -> None:
    """Raises ValueError if a tensor has no type that the host can hold, or an id or a call points nowhere."""
    names = [prog.name for prog in binary.programs]
    if len(set(names)) != len(names):
        raise ValueError(f"programs: expected names that differ, got {names}")
    for number, prog in enumerate(binary.programs):
        count = len(prog.tensors)
        used = [*prog.inputs, *prog.outputs]
        for op in prog.operations:
            used += [*op.inputs, *op.outputs]
            for callee in program.programs_of(op.params):
                if callee not in names[number + 1 :]:
                    raise ValueError(f"{prog.name}: expected calls of programs after it, got {callee!r}")
        for tensor in used:
            if not 0 <= tensor < count:
                raise ValueError(f"{prog.name}: expected tensor ids from 0 to {count - 1}, got {tensor}")
        for desc in prog.tensors:
            if any(dim < 0 for dim in desc.shape):
                raise ValueError(f"{prog.name}: expected dims >= 0, got {desc}")
            formats.host_dtype(desc.element_type)
