"""What a visitor without an account may ask of the results: what a stored chart or filter asks, narrowed by filters.

Superset answers any SQL that a request has for a metric, a column or a condition, as soon as the request names a chart
of an open dashboard. So a request of a visitor is compared with the stored chart, and made anew from what it may have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Query = dict[str, Any]

LARGEST = 256 << 10
"""Bytes of a request."""
QUERIES = 3
"""A table of pages has one for its rows, one for their number, and one for totals."""
FILTER_ROWS = 1000
FILTERS, VALUES, TEXT, PATTERN, RANGE = 50, 1000, 20_000, 200, 200
"""The most filters of a query, values of a filter, and characters of a value, of a search, of a range of time."""
NESTED = 6
"""How many functions the text of a range of time may have, such as `DATEADD(DATETIME("now"), -7, day)`."""
SCALARS = frozenset({"==", "!=", ">", "<", ">=", "<="})
LISTS = frozenset({"IN", "NOT IN"})
FLAGS = frozenset({"IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE"})
FREE = frozenset({"applied_time_extras", "url_params", "custom_params", "custom_form_data"})
"""Keys of a query that no chart of ours needs; they are left out."""
CHART_COLUMNS = ("x_axis", "groupby", "groupbyRows", "groupbyColumns", "columns", "all_columns")
CHART_METRICS = ("metric", "metrics", "percent_metrics", "timeseries_limit_metric")


class RefusedError(Exception):
    """Why a visitor gets no answer."""


@dataclass(frozen=True)
class Sendable:
    """What one stored chart, or the list of values of one filter, sends."""

    dataset: int
    fields: Collection[str]
    """The columns of the dataset, which filters may name."""
    columns: list[Any]
    metrics: list[Any]
    rows: int | None
    """The most rows of a query; None if the chart leaves that to Superset."""
    conditions: list[Query] = field(default_factory=list)
    """Filters that each of its queries has."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Of the chart."""


def chart(params: Mapping[str, Any], dataset: int, fields: Collection[str]) -> Sendable:
    """What a stored chart sends."""
    conditions = []
    for one in params.get("adhoc_filters") or []:
        if one.get("expressionType") != "SIMPLE":
            raise RefusedError("this chart has a condition in SQL, which is for people with an account")
        if one["operator"] != "TEMPORAL_RANGE":  # the dashboard's range takes its place
            conditions.append({"col": one["subject"], "op": one["operator"], "val": one.get("comparator")})
    columns = [name for key in CHART_COLUMNS for name in _many(params.get(key))]
    metrics = [name for key in CHART_METRICS for name in _many(params.get(key))]
    return Sendable(dataset, fields, columns, metrics, params.get("row_limit"), conditions, params)


def filter_values(column: str, metric: str | None, dataset: int, fields: Collection[str]) -> Sendable:
    """What a filter sends to list the values of its column, sorted by them or by a metric."""
    return Sendable(dataset, fields, [column], _many(metric), FILTER_ROWS)


def request(body: Any, sent: Sendable, form_data: Query) -> Query:
    """The request that Superset answers in place of a visitor's. Raises RefusedError if it is not what `sent` sends."""
    _need(isinstance(body, dict), "a map")
    _need(_same(body.get("datasource"), {"id": sent.dataset, "type": "table"}), "the dataset of the chart")
    _need(body.get("result_format", "json") == "json", "JSON as format of the result")
    _need(body.get("result_type", "full") == "full", "the whole result")
    queries = body.get("queries")
    _need(isinstance(queries, list) and 1 <= len(queries) <= QUERIES, f"1 to {QUERIES} queries")
    return {
        "datasource": body["datasource"],
        "queries": [_query(query, sent) for query in queries],
        "force": False,
        "form_data": form_data,
        "result_format": "json",
        "result_type": "full",
    }


def readable_range(text: Any) -> bool:
    """Whether a range of time, such as `Last month`, can be read without much work."""
    return isinstance(text, str) and len(text) <= RANGE and text.count("(") <= NESTED


def _query(query: Any, sent: Sendable) -> Query:
    _need(isinstance(query, dict), "a query that is a map")
    stranger = next((key for key in query if key not in FREE and key not in _CHECKS), None)
    _need(stranger is None, f"a query without `{stranger}`")
    if sent.rows is not None:
        _need("row_limit" in query, "a limit of rows")
    for key, value in query.items():
        if key in _CHECKS:
            _need(_CHECKS[key](value, sent), f"`{key}` of the stored chart")
    had = [{"col": one["col"], "op": one["op"], "val": one.get("val")} for one in query.get("filters") or []]
    _need(all(_among(condition, had) for condition in sent.conditions), "the filters of the stored chart")
    known = [one for one in query.get("filters") or [] if one["col"] in sent.fields]
    return {key: value for key, value in query.items() if key not in FREE} | {"filters": known}


def _filters(value: Any, _: Sendable) -> bool:
    return _list_of(value, FILTERS, _filter)


def _filter(one: Any) -> bool:
    """Whether a filter compares a column with values. One that the dataset lacks is another chart's: left out later."""
    if not isinstance(one, dict) or not set(one) <= {"col", "op", "val", "isExtra"}:
        return False
    column, is_what, value = one.get("col"), one.get("op"), one.get("val")
    if not isinstance(column, str) or not isinstance(is_what, str):
        return False
    if is_what in SCALARS:
        return _scalar(value)
    if is_what in LISTS:
        return isinstance(value, list) and len(value) <= VALUES and all(_scalar(each) for each in value)
    if is_what == "ILIKE":  # with many wildcards, a text costs a power of its length
        return isinstance(value, str) and len(value) <= PATTERN and value.count("%") <= 3
    if is_what == "TEMPORAL_RANGE":
        return readable_range(value)
    return is_what in FLAGS and value is None


def _scalar(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= TEXT
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63)


def _column(value: Any, sent: Sendable) -> bool:
    """Whether a column is one of the chart's; its axis is sent as SQL that is the name alone."""
    if not isinstance(value, dict):
        return _among(value, sent.columns)
    axis = sent.params.get("x_axis")
    base = {"columnType": "BASE_AXIS", "expressionType": "SQL", "sqlExpression": axis, "label": axis}
    base |= {"timeGrain": sent.params.get("time_grain_sqla"), "isColumnReference": True}
    is_axis = isinstance(axis, str) and _same(
        {"timeGrain": base["timeGrain"], **value, "isColumnReference": True}, base
    )
    return is_axis or _among(value, sent.columns)


def _columns(value: Any, sent: Sendable) -> bool:
    return _list_of(value, len(sent.columns), lambda one: _column(one, sent))


def _metrics(value: Any, sent: Sendable) -> bool:
    return _list_of(value, len(sent.metrics), lambda one: _among(one, sent.metrics))


def _list_of(value: Any, most: int, may: Callable[[Any], bool]) -> bool:
    """Whether a value is no list at all, or one of at most so many entries, each of which may be there."""
    return value is None or (isinstance(value, list) and len(value) <= most and all(map(may, value)))


def _order(value: Any, sent: Sendable) -> bool:
    """Whether rows are sorted by what the chart shows, or by what its own form sorts by, shown or not."""
    own = [json.loads(text) for text in sent.params.get("order_by_cols") or ()]

    def may(one: Any) -> bool:
        pair = isinstance(one, list) and len(one) == 2 and isinstance(one[1], bool)
        return pair and (_column(one[0], sent) or _among(one[0], sent.metrics) or _among(one, own))

    return _list_of(value, len(sent.columns) + len(sent.metrics), may)


def _extras(value: Any, sent: Sendable) -> bool:
    allowed = {"where": ("", None), "having": ("", None), "time_grain_sqla": (None, sent.params.get("time_grain_sqla"))}
    return value is None or (
        isinstance(value, dict) and all(key in allowed and one in allowed[key] for key, one in value.items())
    )


def _post_processing(value: Any, sent: Sendable) -> bool:
    """Whether the table of a result is turned as the chart's kind turns it, each way once.

    A pivot over other columns could have more cells than any memory.
    """
    if not isinstance(value, list | None):
        return False
    seen = [one.get("operation") if isinstance(one, dict) else None for one in value or []]
    return len(set(map(str, seen))) == len(seen) and all(_turned(one, sent) for one in value or [])


def _turned(one: Any, sent: Sendable) -> bool:
    if not isinstance(one, dict) or not set(one) <= {"operation", "options"}:
        return False
    params, options = sent.params, one.get("options") or {}
    names = [
        each["label"] if isinstance(each, dict) else each
        for key in ("metrics", "metric")
        for each in _many(params.get(key))
    ]
    groups = [] if params.get("viz_type") == "big_number" else _many(params.get("groupby"))
    mean = {name: {"operator": "mean"} for name in names}
    ways: dict[str, list[Query]] = {
        "pivot": [
            {"index": _many(params.get("x_axis")), "columns": groups, "aggregates": mean, "drop_missing_columns": drops}
            for drops in (False, True)
        ],
        "rename": [{"columns": dict.fromkeys(names), "level": 0, "inplace": True}],
        "contribution": [{"orientation": way, "time_shifts": []} for way in ("row", "column")],
        "rank": [{"metric": name} for name in names],
        "flatten": [{}],
    }
    way = one.get("operation")
    return isinstance(way, str) and way in ways and _among(options, ways[way])


def _rows(value: Any, sent: Sendable) -> bool:
    if sent.rows is None:
        return value is None
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= sent.rows


def _series_limit(value: Any, sent: Sendable) -> bool:
    stored = [sent.params.get(key) for key in ("limit", "series_limit")]
    return value is None or (type(value) is int and value in (0, *stored))


def _offset(value: Any, _: Sendable) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000_000)


def _flag(value: Any, _: Sendable) -> bool:
    return value is None or isinstance(value, bool)


def _nothing(value: Any, _: Sendable) -> bool:
    return not value


_CHECKS: dict[str, Callable[[Any, Sendable], bool]] = {
    "filters": _filters,
    "columns": _columns,
    "metrics": _metrics,
    "orderby": _order,
    "extras": _extras,
    "row_limit": _rows,
    "row_offset": _offset,
    "series_columns": _columns,
    "series_limit": _series_limit,
    "series_limit_metric": lambda value, sent: value is None or _among(value, sent.metrics),
    "post_processing": _post_processing,
    "time_range": lambda value, _: value is None or readable_range(value),
    "order_desc": _flag,
    "is_rowcount": _flag,
    "group_others_when_limit_reached": lambda value, sent: (
        not value or _among(value, [sent.params.get("group_others_when_limit_reached")])
    ),
    "annotation_layers": _nothing,
    "time_offsets": _nothing,
    "granularity": _nothing,
}
"""Key of a query -> whether a visitor may send that value; with any other key nothing is answered."""


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, where 1 is not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _among(value: Any, values: list[Any]) -> bool:
    return any(_same(value, one) for one in values)


def _need(holds: object, what: str) -> None:
    if not holds:
        raise RefusedError(f"expected {what}; without an account, only what the dashboards' charts ask is answered")
