"""Op tests as Parquet: the columns and types of the frame `op_tests`; lists stay lists. Needs the extra `parquet`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from opscope.base.installing import install_command
from opscope.harness.record.errors import InputError
from opscope.reports.database.frame_types import COUNT, LIST, NUMBER, TEXT, TIME, TRUTH
from opscope.reports.exports.export_csv import table
from opscope.reports.exports.exported import Exported
from opscope.reports.exports.frames import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa


def file_name(run: Exported) -> str:
    """The name of the Parquet file, after the run."""
    return f"{run.run_id}.parquet"


def render(run: Exported) -> bytes:
    """Renders the file. Raises InputError if pyarrow is not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        hint = install_command("parquet")
        raise InputError("--format parquet", "pyarrow", f"no module `{error.name}`", hint) from error
    answer = table(run)
    columns = zip(*answer.rows, strict=True) if answer.rows else ([] for _ in answer.columns)
    arrays = {
        name: pa.array([_value(value, COLUMNS["op_tests"][name].dtype) for value in values], type=_type(pa, name))
        for name, values in zip(answer.columns, columns, strict=True)
    }
    meaning = {name: {"meaning": COLUMNS["op_tests"][name].meaning} for name in answer.columns}
    fields = [pa.field(name, _type(pa, name), metadata=meaning[name]) for name in answer.columns]
    schema = pa.schema(fields, metadata={"run_id": run.run_id, "revision": run.revision})
    buffer = io.BytesIO()
    pq.write_table(pa.table(arrays, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()


def _type(pa: Any, name: str) -> pa.DataType:
    kinds = {
        TEXT: pa.string(),
        COUNT: pa.int64(),
        NUMBER: pa.float64(),
        TRUTH: pa.bool_(),
        TIME: pa.timestamp("us", tz="UTC"),
        LIST: pa.list_(pa.string()),
    }
    return kinds[COLUMNS["op_tests"][name].dtype]


def _value(value: Any, dtype: str) -> Any:
    """Returns the value for a column of that type; a missing text becomes an empty one, as in the frame."""
    if dtype == TEXT:
        return "" if value is None else str(value).encode("utf-8", "replace").decode("utf-8")
    return value
