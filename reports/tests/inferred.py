"""A JSON schema from answers: what every answer so far had, and what some of them had."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any

Schema = dict[str, Any]
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TYPES: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
KEYED = frozenset(
    {
        "counts",
        "runs",
        "rows",
        "settings",
        "options",
        "versions",
        "compilers",
        "statuses",
        "uses",
        "dates",
        "ledgers",
        "by_status",
        "module_ops",
        "structural",
        "unsplittable_uses",
        "unknown",
    }
)
"""Fields whose objects have data as keys: each value has the same schema."""
COUNTED = "models"
"""The same where the values are numbers: how often a model uses an op."""
OPEN = "op_params"
"""A field whose object has any names and values: those of an op of StableHLO."""


def schema_of(value: Any, name: str = "") -> Schema:
    """The schema of one value, which stands in the field `name`."""
    if isinstance(value, Mapping):
        if name == OPEN:
            return {"type": ["object"], "additionalProperties": {}}
        counts = name == COUNTED and all(isinstance(each, int) for each in value.values())
        if name in KEYED or counts or not all(_NAME.fullmatch(key) for key in value):
            return {"type": ["object"], "additionalProperties": union_of([schema_of(each) for each in value.values()])}
        fields = {key: schema_of(each, key) for key, each in sorted(value.items())}
        return {"type": ["object"], "properties": fields, "required": sorted(value), "additionalProperties": False}
    if isinstance(value, list | tuple):
        return {"type": ["array"], "items": union_of([schema_of(each) for each in value])}
    return {"type": [_TYPES[type(value)]]}


def union_of(schemas: list[Schema]) -> Schema:
    """The narrowest schema that holds what any of these holds; that of nothing holds everything."""
    return reduce(union, schemas, {})


def union(a: Schema, b: Schema) -> Schema:
    """What either of two schemas holds; a field that one of them lacks may be absent."""
    if not a or not b:
        return a or b
    types = sorted({*a["type"], *b["type"]})
    if "number" in types:
        types = [word for word in types if word != "integer"]
    both: Schema = {"type": types}
    if "items" in a or "items" in b:
        both["items"] = union(a.get("items", {}), b.get("items", {}))
    objects = [each for each in (a, b) if "additionalProperties" in each]
    if any(each["additionalProperties"] is not False for each in objects):  # data as keys in one of them
        own = [s for each in objects for s in each.get("properties", {}).values()]
        both["additionalProperties"] = union_of([*own, *(e["additionalProperties"] or {} for e in objects)])
    elif objects:
        names = sorted({name for each in objects for name in each["properties"]})
        both["properties"] = {n: union_of([e["properties"][n] for e in objects if n in e["properties"]]) for n in names}
        both["required"] = sorted(set.intersection(*(set(each["required"]) for each in objects)))
        both["additionalProperties"] = False
    return both


def opened(schema: Schema) -> Schema:
    """The schema without what no answer shows: a field that was always null may be anything."""
    if schema.get("type") == ["null"]:
        return {}
    open_one = dict(schema)
    if "items" in open_one:
        open_one["items"] = opened(open_one["items"])
    if "properties" in open_one:
        open_one["properties"] = {name: opened(each) for name, each in open_one["properties"].items()}
    if isinstance(open_one.get("additionalProperties"), dict):
        open_one["additionalProperties"] = opened(open_one["additionalProperties"])
    return open_one
