"""Columns follow the types of a record's fields, and values lose what databases refuse."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import sqlalchemy as sa
from pydantic import BaseModel

from opscope.harness.record.stages import Status
from opscope.reports.publish import bulk
from opscope.reports.records.columns import BEFORE, Utc, columns, plain


class Example(BaseModel):
    name: str
    status: Status
    count: int | None = None
    share: float = 0.0
    good: bool = True
    when: datetime
    many: tuple[str, ...] = ()


def test_a_column_per_field() -> None:
    made = {column.name: column for column in columns(Example, keys=("name",), without=("share",))}
    kinds = {name: type(column.type) for name, column in made.items()}
    assert kinds == {
        "name": sa.Text,
        "status": sa.Text,
        "count": sa.BigInteger,
        "good": sa.Boolean,
        "when": Utc,
        "many": sa.JSON,
    }
    assert [name for name, column in made.items() if column.nullable] == ["count"]
    assert [name for name, column in made.items() if column.primary_key] == ["name"]
    before = {name: column.info[BEFORE] for name, column in made.items() if BEFORE in column.info}
    assert before == {"good": True, "many": "[]"}, "what a migration gives rows from before"


def test_plain_leaves_nothing_that_a_database_refuses() -> None:
    value = {"a": [math.nan, -math.inf, 1.5], "b": ("x\0y", Status.TIMEOUT), "c": True}
    assert plain(value) == {"a": [None, None, 1.5], "b": ["x\\0y", "timeout"], "c": True}
    assert type(plain(Status.TIMEOUT)) is str


def test_times_keep_their_instant() -> None:
    engine = sa.create_engine("sqlite://")
    table = sa.Table("t", sa.MetaData(), sa.Column("at", Utc()))
    local = datetime(2026, 11, 20, 14, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(sa.insert(table).values(at=local))
        back = connection.scalar(sa.select(table.c.at))
        assert back == local
        assert back is not None
        assert back.tzinfo is UTC
        assert connection.exec_driver_sql("SELECT at FROM t").scalar() == "2026-11-20 12:30:00.123456"
    engine.dispose()


def test_values_as_drivers_take_them() -> None:
    """What goes past SQLAlchemy in bulk is converted as SQLAlchemy would: NUL, NaN and zones."""
    assert [bulk._text(text) for text in ("a\0b", "ab", Status.TIMEOUT)] == ["a\\0b", "ab", "timeout"]
    assert [bulk._real(value) for value in (1.5, math.nan, math.inf)] == [1.5, None, None]
    noon = datetime(2026, 1, 2, 12, 30, 0, 7)
    for moment in (noon, noon.replace(tzinfo=UTC), noon.replace(hour=14, tzinfo=timezone(timedelta(hours=2)))):
        assert bulk._utc(moment) == noon.replace(tzinfo=UTC)
        assert bulk._utc_text(moment) == "2026-01-02 12:30:00.000007"
    assert bulk.json_text({"b": 1, "a": "x"}) == '{"b":1,"a":"x"}'
    assert bulk.json_text({"a": math.nan, "b": "x\0y"}) == '{"a":null,"b":"x\\\\0y"}'
