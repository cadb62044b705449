"""The results database as pandas DataFrames: `op_tests()`, `diff(a, b)`, and one function for each view: `coverage()`.

Each frame has the columns of its table below or of its view, in that order and with those types, even if it is empty.
docs/metrics.md explains the columns of views. pandas comes with the extra `frames`; nothing else here imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from opscope.base.installing import install_command
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.measures import KINDS, MEASURES
from opscope.harness.record.result_options import OPTIONS, record_fields
from opscope.reports.compare.night_diff import diffs
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.database.database import views
from opscope.reports.database.frame_types import COUNT, LIST, NUMBER, OF_TYPE, TEXT, TIME, TRUTH, type_of
from opscope.reports.database.metrics import SHARED, parse
from opscope.reports.database.reading import database_url, read_database
from opscope.reports.database.schema import MODELS, MODULE_OPS, OP_TESTS, OPS, RUNS
from opscope.reports.records.columns import Utc

if TYPE_CHECKING:
    import pandas as pd


class Column(NamedTuple):
    """One column of a frame."""

    dtype: str
    """The pandas type; `Int64` has missing values, in `float64` they are NaN, `object` holds lists."""
    meaning: str


def _shared(*names: str) -> dict[str, Column]:
    """Columns that views have too: they are of the same type there, and mean the same."""
    return {name: Column(type_of("", name), SHARED[name]) for name in names}


COLUMNS: dict[str, dict[str, Column]] = {
    "op_tests": {
        **_shared("run_id", "started", "backend", "arch", "card_type", "op_id", "op_name", "op_kind"),
        "types": Column(TEXT, SHARED["signature"]),
        **_shared("status", "stage_reached", "failed_stage", "error_signature", "error_message", "expected"),
        **_shared("is_failure", "flaky", "pcc", "z_max", "z_place", "question", "hypothesis"),
        "second_authority": Column(TEXT, "what a second authority says of the golden; empty where none was asked"),
        **{name: Column(OF_TYPE[KINDS[name]], measure.meaning) for name, measure in MEASURES.items()},
        **_shared("seconds", "uses"),
        "models": Column(LIST, SHARED["models"]),
        **_shared("ran_on", "data_format"),
        "math_fidelity": Column(TEXT, "passes of the matrix unit"),
        **{
            name: Column(OF_TYPE[kind], OPTIONS[name].column)
            for name, (kind, _) in record_fields().items()
            if name not in ("arch", "data_format", "math_fidelity")
        },
        **_shared("provenance", "attempt", "repro"),
    },
    "diff": {
        "series": Column(TEXT, "backend, board and options that were compared"),
        "label": Column(TEXT, "what happened to the op: one of the labels above"),
        **_shared("op_id", "op_name", "op_kind"),
        "types": Column(TEXT, SHARED["signature"]),
        "models": Column(LIST, "models of either run that it stands in"),
        "uses": Column(COUNT, "places in the later run, or in the earlier if it is not there"),
        "status_a": Column(TEXT, "how it ended in the earlier run; empty where it was not in it"),
        "status_b": Column(TEXT, "how it ended in the later run"),
        "stage_a": Column(TEXT, "furthest stage in the earlier run"),
        "stage_b": Column(TEXT, "furthest stage in the later run"),
        "failed_stage": Column(TEXT, "where it goes wrong in the later run; in the earlier, if it is right now"),
        "error_a": Column(TEXT, "what the error said in the earlier run"),
        "error_b": Column(TEXT, "what it said in the later run"),
        "cluster": Column(TEXT, "the failure's cause, equal for equal causes"),
        "pcc_a": Column(NUMBER, "correlation with the golden in the earlier run"),
        "pcc_b": Column(NUMBER, "in the later run"),
        "cycles_a": Column(COUNT, "device cycles in the earlier run"),
        "cycles_b": Column(COUNT, "in the later run"),
        "compile_ms_a": Column(NUMBER, "milliseconds of all stages before `run` in the earlier run"),
        "compile_ms_b": Column(NUMBER, "in the later run"),
        "known": Column(TEXT, "the limitation that names the failure of the later run"),
        "flaky": Column(TRUTH, "whether repeated attempts of either run disagreed"),
        "note": Column(TEXT, "what the label rests on"),
        "repro": Column(TEXT, "the line that runs just this op again"),
        "news": Column(TRUTH, "whether the row fails `opscope diff --check`"),
    },
}
"""Frame that is not a view -> its columns."""


def op_tests(url: str | None = None, run_id: str | None = None) -> pd.DataFrame:
    """One row per op and run: the result of the op.

    `url`: the database (default: this folder's); `run_id`: only the rows of this run.
    """
    joined = ("started", "types", "models", "status")
    query = sa.select(
        *(OP_TESTS.c[name] for name in COLUMNS["op_tests"] if name not in joined),
        OP_TESTS.c.status,
        RUNS.c.started,
        OPS.c.signature.label("types"),
    )
    query = query.join(RUNS, RUNS.c.run_id == OP_TESTS.c.run_id).join(OPS, OPS.c.op_id == OP_TESTS.c.op_id)
    query = query.where(OP_TESTS.c.superseded_by != OP_TESTS.c.run_id)
    uses = sa.select(MODELS.c.run_id, MODULE_OPS.c.op_id, MODELS.c.model)
    uses = uses.join(MODULE_OPS, MODULE_OPS.c.module_id == MODELS.c.module_id)
    if run_id is not None:
        query = query.where(OP_TESTS.c.run_id == run_id)
        uses = uses.where(MODELS.c.run_id == run_id)
    with read_database(database_url(url), "url") as connection:
        models: dict[tuple[str, str], list[str]] = {}
        for run, op_id, model in connection.execute(uses.order_by(MODELS.c.position)):
            models.setdefault((run, op_id), []).append(model)
        ordered = query.order_by(RUNS.c.started, OP_TESTS.c.run_id, OP_TESTS.c.op_id)
        rows = connection.execute(ordered).mappings()
        return _frame("op_tests", [{**row, "models": models.get((row["run_id"], row["op_id"]), [])} for row in rows])


def diff(a: str | None = None, b: str | None = None, url: str | None = None) -> pd.DataFrame:
    """One row per op of either side: how it changed between `a` and `b`; nights are compared in each series of both.

    `a` and `b` are named as for `opscope diff`: run folders, ids, nights or their dates. By default they are the newest
    night and the one before it, or the two newest comparable runs.
    """
    with open_runs(url) as runs:
        comparisons, _ = diffs(runs, a, b)
    return _frame(
        "diff",
        [
            {**asdict(row), "news": row.news, "series": comparison.b.series}
            for comparison in comparisons
            for row in comparison.rows
        ],
    )


def view(name: str, url: str | None = None, run_id: str | None = None, **equal: Any) -> pd.DataFrame:
    """The rows of a view, in no order: only those of run `run_id` and with the values in `equal`, where given.

    `frames.coverage(...)` is `frames.view("coverage", ...)`. Raises InputError for an unknown view or column.
    """
    selects = views()
    if name not in selects:
        raise InputError("opscope.frames", "a view of the database", f"`{name}`", closest(name, selects))
    query = sa.select(sa.text("*")).select_from(sa.table(name))
    equal |= {} if run_id is None else {"run_id": run_id}
    with read_database(database_url(url), "url") as connection:
        columns = list(connection.execute(query.limit(0)).keys())
        for column in equal:
            if column not in columns:
                raise InputError(f"opscope.frames.{name}", "a column of it", f"`{column}`", closest(column, columns))
        types = {column: type_of(name, column) for column in columns}
        typed = {column: sa.column(column, Utc() if dtype == TIME else None) for column, dtype in types.items()}
        filtered = sa.select(*typed.values()).select_from(sa.table(name))
        filtered = filtered.where(*(typed[column] == value for column, value in equal.items()))
        return _typed_frame(types, connection.execute(filtered).mappings())


def __getattr__(name: str) -> Callable[..., pd.DataFrame]:
    """Returns the function that reads the view of that name."""
    selects = {} if name.startswith("_") else views()
    if name not in selects:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def read(url: str | None = None, run_id: str | None = None, **equal: Any) -> pd.DataFrame:
        return view(name, url, run_id, **equal)

    described = parse(name, selects[name])
    columns = "".join(
        f"\n{column} ({type_of(name, column)}): {meaning}" for column, meaning in described.columns.items()
    )
    read.__name__ = read.__qualname__ = name
    read.__doc__ = f"{described.holds}\n{columns}\n\nFor `url`, `run_id` and other columns see `opscope.frames.view`."
    return read


def __dir__() -> list[str]:
    """What there is to call: the functions of this module and the views."""
    return sorted({"diff", "op_tests", "view", *views()})


def _frame(name: str, rows: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    return _typed_frame({column: kind.dtype for column, kind in COLUMNS[name].items()}, rows)


def _typed_frame(types: Mapping[str, str], rows: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    """Builds a frame of the rows, with columns of those types."""
    try:
        import pandas as pd
    except ImportError as error:
        hint = install_command("frames")
        raise InputError("opscope.frames", "pandas", f"no module `{error.name}`", hint) from error
    rows = list(rows)
    return pd.DataFrame(
        {
            column: pd.Series([_value(row[column], dtype) for row in rows], dtype=_dtype(dtype))
            for column, dtype in types.items()
        }
    )


def _dtype(name: str) -> Any:
    return str if name == TEXT else name


def _value(value: Any, dtype: str) -> Any:
    """Converts a database's value for a column of that type; a missing text becomes empty, so that `==` works."""
    if dtype == TEXT:
        return "" if value is None else str(value)
    if dtype == LIST:
        return list(value)
    if dtype == TRUTH:
        return bool(value)  # SQLite stores them as numbers
    if dtype == COUNT and value is not None:
        return int(value)  # PostgreSQL returns sums as decimals
    if dtype == NUMBER and value is not None:
        return float(value)
    return value
