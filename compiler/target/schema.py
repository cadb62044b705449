"""What `schema.fbs` says of numbers: their types, and the values of those that a table leaves out."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

SCHEMA = Path(__file__).with_name("schema.fbs")

_TABLE = re.compile(r"^table (\w+) \{(.*?)\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"(\w+):(\w+)(?: = (\S+))?;")
_KINDS = {"long": int, "uint32": int, "double": float, "bool": bool}


class Number(NamedTuple):
    """A number of a table."""

    type: str
    """`long`, `uint32`, `double`, `bool`."""
    absent: int | float
    """Its value where a table does not have it."""


@cache
def numbers() -> dict[tuple[str, str], Number]:
    """Every number of the schema, by its table and its name."""
    return {
        (table, name): Number(kind, _KINDS[kind](default or 0))
        for table, fields in _TABLE.findall(SCHEMA.read_text(encoding="utf-8"))
        for name, kind, default in _FIELD.findall(fields)
        if kind in _KINDS
    }
