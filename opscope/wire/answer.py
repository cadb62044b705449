"""The base of what commands print with `--json`, how it is printed, and its JSON schema.

An answer has exactly the fields that its type names. A field that may stay left out has the default MISSING; every
other field is always there, null where its type says so. A number that is not finite is null, as JSON has none.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from datetime import datetime
from typing import Annotated, Any

import click
from pydantic import MISSING, BaseModel, ConfigDict, PlainSerializer, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema

CONFIG = ConfigDict(
    extra="forbid",
    # Dataclasses that rooms compute with are checked when they become part of an answer.
    revalidate_instances="always",
    use_attribute_docstrings=True,
    json_schema_serialization_defaults_required=True,
    serialize_by_alias=True,
)

Time = Annotated[
    datetime,
    PlainSerializer(datetime.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization"),
]
"""A point in time with its zone, as `2026-11-20T02:00:00+00:00`."""


class Answer(BaseModel):
    """Base of every answer and of its parts."""

    model_config = CONFIG | ConfigDict(frozen=True)


def print_answer(answer: object, kind: Any = None, indent: int | None = 2) -> None:
    """Prints an answer as `text_of` has it."""
    click.echo(text_of(answer, kind, indent))


def text_of(answer: object, kind: Any = None, indent: int | None = 2) -> str:
    """An answer as JSON in ASCII, one line without `indent`; `kind` is its type where that is no class."""
    adapter = _adapter(type(answer) if kind is None else kind)
    answer = answer if isinstance(answer, BaseModel) else adapter.validate_python(answer)
    return adapter.dump_json(answer, indent=indent, ensure_ascii=True).decode()


def schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of what is printed of a type."""
    return _unwrapped(_adapter(kind).json_schema(mode="serialization", schema_generator=_Schema))


def _unwrapped(schema: Any) -> Any:
    """The schema with each description on one line."""
    if isinstance(schema, list):
        return [_unwrapped(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    said = schema.get("description")
    own = {"description": " ".join(said.split())} if isinstance(said, str) else {}
    return {name: _unwrapped(each) for name, each in schema.items()} | own


def _adapter(kind: Any) -> TypeAdapter[Any]:
    own = hasattr(kind, "__pydantic_config__") or (isinstance(kind, type) and issubclass(kind, BaseModel))
    return TypeAdapter(kind, config=None if own or is_dataclass(kind) else CONFIG)


class _Schema(GenerateJsonSchema):
    """Names are titles of their own, and a field that may stay left out is not required."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        left_out = field["schema"].get("default") is MISSING
        return not left_out and super().field_is_required(field, total)
