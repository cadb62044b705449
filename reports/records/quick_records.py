"""Reads the lines of manifest and journal fast enough to publish 100,000 op tests.

msgspec reads a line several times as fast as pydantic, into objects that the garbage collector does not track. Its
types are generated from the fields of the records, so that no field is declared twice. A line that does not fit them
(an older schema, a NUL in a text, no record at all) is read by harness/record/store.py, which
upgrades it or raises an error. The texts in records that are read here contain no NUL.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast

import msgspec
from pydantic import AfterValidator
from pydantic_core import PydanticUndefined

from opscope.base.statuses import PASSED, ending
from opscope.harness.record.field_types import LEAST, MOST, Matching
from opscope.harness.record.records import SCHEMA_VERSION, ManifestHeader, OpRow, OpTest, Record
from opscope.harness.record.stages import WORD, Stage
from opscope.harness.record.store import each_once, header_of, lines_of_journal, lines_of_manifest, parse, records_in
from opscope.reports.records.columns import plain

UNREAD = frozenset({"locations", "sources", "golden"})
"""Fields that no table has; they are not parsed."""

NUL = b"\\u0000"

R = TypeVar("R", bound=Record)


def manifest(run_dir: Path) -> tuple[ManifestHeader, list[OpRow]]:
    """Reads the manifest of a run. Raises InputError if there is none or its schema is unknown."""
    lines = lines_of_manifest(run_dir)
    header = header_of(run_dir, next(lines))
    return header, list(each_once(records_in(lines, lambda where, line: _read(OpRow, line, where)), run_dir))


def journal(run_dir: Path) -> Iterator[OpTest]:
    """Reads every attempt of a run at every op. Damage is reported and left out; raises InputError for a schema."""
    return records_in(lines_of_journal(run_dir), lambda where, line: _read(OpTest, line, where))


def _read(kind: type[R], line: bytes, where: str) -> R:
    if NUL not in line:
        try:
            record = decoder(kind).decode(line)
        except (msgspec.MsgspecError, RecursionError):
            pass
        else:
            if kind is OpTest and ending(record.status, record.stage_reached, record.ran_on) == PASSED:
                record.status, record.success = PASSED, True  # as the record's own class does
            if getattr(record, "schema_version", SCHEMA_VERSION) == SCHEMA_VERSION:
                return record
    values = plain(parse(kind, line, where))
    return msgspec.convert({name: value for name, value in values.items() if name not in UNREAD}, type_of(kind))


@cache
def decoder(kind: type[Record]) -> Any:
    """The decoder for lines of that record."""
    return msgspec.json.Decoder(type_of(kind))


@cache
def type_of(record: type[Record]) -> Any:
    """The record as a msgspec struct: the same fields, defaults and strictness; enumerations are literal texts."""
    fields: list[tuple[str, Any, Any]] = []
    hints = typing.get_type_hints(record, include_extras=True)
    for name, field in record.model_fields.items():
        kind = msgspec.Raw if name in UNREAD else _type(hints[name])
        if name in UNREAD:
            default: Any = msgspec.field(default=msgspec.Raw(b"[]"))
        elif field.default_factory is not None:
            default = msgspec.field(default_factory=cast(Callable[[], Any], field.default_factory))
        elif field.default is not PydanticUndefined:
            default = msgspec.field(default=field.default)
        else:
            default = msgspec.NODEFAULT
        fields.append((name, kind, default))
    return msgspec.defstruct(record.__name__, fields, forbid_unknown_fields=True, gc=False, kw_only=True)


def _type(hint: Any) -> Any:
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Annotated:
        return _checked(*inner)
    if hint is Stage:  # also the words of other people's backends
        return typing.Annotated[str, msgspec.Meta(pattern=rf"\A{WORD}\Z")]
    if typing.get_origin(hint) in (Union, UnionType):
        return Union[tuple(_type(option) for option in inner)]  # noqa: UP007 - built at run time
    if typing.get_origin(hint) is tuple:
        return tuple[_type(inner[0]), ...]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Literal[tuple(str(option) for option in hint)]
    if isinstance(hint, type) and issubclass(hint, Record):
        return type_of(hint)
    return hint


def _checked(hint: Any, *checks: Any) -> Any:
    """A type of harness/record/field_types.py with msgspec's form of its checks."""
    if hint is int:
        return typing.Annotated[int, msgspec.Meta(ge=LEAST, le=MOST)]
    functions = [check.func for check in checks if isinstance(check, AfterValidator)]
    patterns = [function.pattern for function in functions if isinstance(function, Matching)]
    return typing.Annotated[hint, msgspec.Meta(pattern=patterns[0])] if patterns else _type(hint)
