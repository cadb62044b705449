"""Locations of tt-mlir's text, read and printed with the aliases that the text has for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import builtin as b

from opscope.compiler.tt_mlir.attributes import RawAttr, escaped, raw, unescaped
from opscope.compiler.tt_mlir.brackets import closing, parts

_FILE = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)":(\d+):(\d+)(?: to (\d*:\d+))?')
_NAMED = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(?:\((.*)\))?', re.DOTALL)

Resolve = Callable[[str], b.LocationAttr]
"""From an alias to its location."""


def location(text: str, resolve: Resolve) -> b.LocationAttr:
    """The location of what stands in `loc(...)`. Raises ValueError for a form that it does not know."""
    text = text.strip()
    if text[:1] == "#":
        return resolve(text)
    if text == "unknown":
        return b.UnknownLoc()
    if (match := _FILE.fullmatch(text)) is not None:
        start = b.FileLineColLoc(b.StringAttr(unescaped(match[1])), b.IntAttr(int(match[2])), b.IntAttr(int(match[3])))
        # A range of a file, for which xDSL has no class, is a place with its end beside it.
        return start if match[4] is None else b.FusedLoc((start,), raw(match[4]))
    if (match := _NAMED.fullmatch(text)) is not None:
        inner = b.UnknownLoc() if match[2] is None else location(match[2], resolve)
        return b.NameLoc(b.StringAttr(unescaped(match[1])), inner)
    if text.startswith("callsite(") and closing(text, 8) == len(text):
        callee, caller = _around_at(text[9:-1])
        return b.CallSiteLoc(location(callee, resolve), location(caller, resolve))
    if text.startswith("fused[") and closing(text, 5) == len(text):
        return b.FusedLoc(tuple(location(part, resolve) for part in parts(text[6:-1])), b.NoneAttr())
    raise ValueError(f"expected a location, got {text[:60]!r}")


def _around_at(text: str) -> tuple[str, str]:
    """What stands before and after the ` at ` that is in no string and no bracket."""
    place = 0
    while (place := text.find(" at ", place)) >= 0:
        before = text[:place]
        if before.count('"') % 2 == 0 and before.count("(") == before.count(")"):
            return before, text[place + 4 :]
        place += 4
    raise ValueError(f"expected `callee at caller`, got {text[:60]!r}")


def written(value: Any, aliases: Mapping[int, str], *, whole: bool = False) -> str:
    """A location as it stands in `loc(...)`; those that have an alias by it, and with `whole` itself written out."""
    alias = aliases.get(id(value))
    if alias is not None and not whole:
        return alias
    match value:
        case b.UnknownLoc():
            return "unknown"
        case b.FileLineColLoc():
            return f"{escaped(value.filename.data)}:{value.line.data}:{value.column.data}"
        case b.FusedLoc() if isinstance(value.metadata, RawAttr):
            return f"{written(_of(value)[0], {})} to {value.metadata.text.data}"
        case b.NameLoc():
            inner = "" if isinstance(value.location, b.UnknownLoc) else f"({written(value.location, aliases)})"
            return f"{escaped(value.desc.data)}{inner}"
        case b.CallSiteLoc():
            return f"callsite({written(value.callee, aliases)} at {written(value.caller, aliases)})"
        case b.FusedLoc():
            return f"fused[{', '.join(written(part, aliases) for part in _of(value))}]"
        case _:
            raise ValueError(f"location: expected one that MLIR has, got {type(value).__name__}")


def place_of(where: Any) -> str:
    """`name (file:line)` of a location, as far as it says: its outermost name, and the innermost call's place."""
    name = where.desc.data if isinstance(where, b.NameLoc) else ""
    while True:
        match where:
            case b.NameLoc():
                where = where.location
            case b.CallSiteLoc():
                where = where.callee
            case b.FusedLoc():
                where = _of(where)[0]
            case b.FileLineColLoc():
                place = f"{where.filename.data}:{where.line.data}"
                return f"{name} ({place})" if name else place
            case _:
                return name


def _of(fused: Any) -> tuple[Any, ...]:
    """The locations that one is made of."""
    return fused.locations.data
