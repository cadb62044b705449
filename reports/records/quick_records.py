"""Reads the lines of manifest and journal fast enough to publish 100,000 op tests.

msgspec reads a line several times as fast as pydantic, into objects that the garbage collector does not track. Its
types are generated from the fields of the records, so that no field is declared twice. A line that does not fit them
(an older schema, a NUL in a text, no record at all) is read by harness/record/store.py, which
upgrades it or raises an error. The texts in records that are read here contain no NUL.
"""

from __future__ import annotations

import contextlib
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast

import msgspec
from pydantic import AfterValidator
from pydantic_core import PydanticUndefined

from opscope.base.statuses import PASSED, ending
from opscope.harness.record.field_types import LEAST, MOST, Matching
from opscope.harness.record.records import SCHEMA_VERSION, ManifestHeader, OpRow, OpTest, Record, Use
from opscope.harness.record.stages import WORD, Stage, Status
from opscope.harness.record.store import (
    StoredRun,
    each_once,
    header_of,
    in_order,
    latest,
    lines_of_journal,
    lines_of_manifest,
    parse,
    read_run,
    records_in,
    whole_tests,
)
from opscope.reports.records.columns import plain

UNREAD = frozenset({"locations", "sources", "golden", "other_classes"})
"""Fields that no table has; they are not parsed."""
OWN = frozenset({"op_id", "test_case_name", "full_test_name", "error_message", "repro", "artifact", "hypothesis"})
"""Texts that few records have in common. Each other one is kept once, however many have it."""

NOTHING = msgspec.Raw(b"[]")
NUL = b"\\u0000"

R = TypeVar("R", bound=Record)


def manifest(run_dir: Path) -> tuple[ManifestHeader, list[OpRow]]:
    """Reads the manifest of a run. Raises InputError if there is none or its schema is unknown."""
    header, rows = _manifest(run_dir)
    return header, list(rows)


def _manifest(run_dir: Path) -> tuple[ManifestHeader, Iterator[OpRow]]:
    lines = lines_of_manifest(run_dir)
    header = header_of(run_dir, next(lines))
    return header, each_once(records_in(lines, lambda where, line: _read(OpRow, line, where)), run_dir)


def journal(run_dir: Path) -> Iterator[OpTest]:
    """Reads every attempt of a run at every op. Damage is reported and left out; raises InputError for a schema."""
    return records_in(lines_of_journal(run_dir), lambda where, line: _read(OpTest, line, where))


def stored(run_dir: Path, most: int = 0) -> StoredRun:
    """Like `store.load_run`, in a fifth of the memory, without sources and goldens. In a run of more ops than `most`
    those that are right have no places in their models. Raises InputError as that does."""
    tests = latest(journal(run_dir))
    right = {test.op_id for test in tests if test.right} if len(tests) > most else set()
    header, every = _manifest(run_dir)
    rows = []
    for row in every:
        if row.op_id in right:
            row.uses = tuple(map(_without_place, row.uses))  # type: ignore[misc]
        rows.append(row)
    places = {row.op_id: tuple(use.location for use in row.uses) for row in rows if row.op_id not in right}
    for test in tests:
        test.locations = places.get(test.op_id, ())  # type: ignore[misc]
    return StoredRun(read_run(run_dir), header, rows, in_order(rows, tests), whole_tests(run_dir))


def op_test(values: Mapping[str, Any]) -> OpTest:
    """The op test with these values, as a database has them. Raises msgspec.ValidationError."""
    named = {str(name): value for name, value in values.items()}  # which SQLAlchemy has as texts of its own
    test: Any = _compact(OpTest, msgspec.convert(named, type_of(OpTest), strict=False))
    test.locations = ()
    return test


@lru_cache(maxsize=4096)
def _use_of(model: str) -> Any:
    return msgspec.convert({"model": model, "path": ""}, type_of(Use))


def _without_place(use: Use) -> Any:
    return _use_of(use.model)


def _read(kind: type[R], line: bytes, where: str) -> R:
    record: Any = None
    if NUL not in line:
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            record = decoder(kind).decode(line)
    if record is None or getattr(record, "schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        values = plain(parse(kind, line, where))
        known = {name: value for name, value in values.items() if name not in UNREAD}
        return _compact(kind, msgspec.convert(known, type_of(kind)))
    if kind is OpTest and ending(record.status, record.stage_reached, record.ran_on) == PASSED:
        record.status, record.success = PASSED, True  # as the record's own class does
    return _compact(kind, record)


def _compact(kind: type[R], record: Any) -> R:
    """The record without what is unread, of which a Raw holds the whole line; texts that many have are kept once."""
    for name in UNREAD & kind.model_fields.keys():
        setattr(record, name, NOTHING)
    for name in _shared() if kind is OpTest else ():
        if type(text := getattr(record, name)) is str:
            setattr(record, name, sys.intern(text))
    return record


@cache
def _shared() -> tuple[str, ...]:
    """The fields of an op test with texts that many have in common."""
    hints = typing.get_type_hints(OpTest)
    texts = (name for name, hint in hints.items() if str in (hint, *typing.get_args(hint)) or hint in (Status, Stage))
    return tuple(name for name in texts if name in OpTest.model_fields and name not in OWN)


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
            default: Any = msgspec.field(default=NOTHING)
        elif field.default_factory is not None:
            default = msgspec.field(default_factory=cast(Callable[[], Any], field.default_factory))
        elif field.default is not PydanticUndefined:
            default = msgspec.field(default=field.default)
        else:
            default = msgspec.NODEFAULT
        fields.append((name, kind, default))
    own = {name: value for name, value in vars(record).items() if isinstance(value, property)}
    return msgspec.defstruct(record.__name__, fields, namespace=own, forbid_unknown_fields=True, gc=False, kw_only=True)


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
