"""A visitor's request is what a stored chart or filter sends, narrowed by filters, or it is refused."""

from __future__ import annotations

import copy
import re
import sys
from typing import Any

import pytest

from opscope.dashboards import bundle, viz
from opscope.dashboards.home import ROOM
from opscope.dashboards.results import Source
from opscope.dashboards.tests.assets import ASSETS

sys.path.insert(0, str(ROOM / "inside"))  # as Superset's configuration does
import visitor_queries  # type: ignore[import-not-found]
from visitor_queries import RefusedError  # type: ignore[import-not-found]

SQL = {"expressionType": "SQL", "sqlExpression": "sum(length(hex(randomblob(100000000))))", "label": "x"}
FIELDS = frozenset({"op", "error", "model", "started", "newest", "z_max"})
TABLE = {
    "viz_type": "table",
    "groupby": ["op", "error"],
    "metrics": ["boards", "models"],
    "row_limit": 1000,
    "timeseries_limit_metric": "most",
    "adhoc_filters": [
        {"expressionType": "SIMPLE", "subject": "newest", "operator": "==", "comparator": 1, "clause": "WHERE"},
        {"expressionType": "SIMPLE", "subject": "started", "operator": "TEMPORAL_RANGE", "comparator": "No filter"},
    ],
}
LINE = {
    "viz_type": "echarts_timeseries_line",
    "x_axis": "started",
    "time_grain_sqla": None,
    "groupby": ["model"],
    "metrics": ["failing"],
    "row_limit": 10000,
    "adhoc_filters": [],
}
NEWEST = {"col": "newest", "op": "==", "val": 1}
AXIS = {
    "columnType": "BASE_AXIS",
    "expressionType": "SQL",
    "sqlExpression": "started",
    "label": "started",
    "timeGrain": None,
    "isColumnReference": True,
}
PIVOT = {
    "operation": "pivot",
    "options": {
        "index": ["started"],
        "columns": ["model"],
        "drop_missing_columns": False,
        "aggregates": {"failing": {"operator": "mean"}},
    },
}
RENAME = {"operation": "rename", "options": {"columns": {"failing": None}, "level": 0, "inplace": True}}


def body(query: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "datasource": {"id": 6, "type": "table"},
        "force": True,
        "queries": [query],
        "form_data": {"slice_id": 1, "tooltip_contents": [SQL]},
        "result_format": "json",
        "result_type": "full",
        **more,
    }


def table_query(**more: Any) -> dict[str, Any]:
    return {
        "filters": [NEWEST, {"col": "started", "op": "TEMPORAL_RANGE", "val": "Last month"}],
        "extras": {"having": "", "where": "", "time_grain_sqla": None},
        "applied_time_extras": {},
        "columns": ["op", "error"],
        "metrics": ["boards", "models"],
        "orderby": [["most", False]],
        "annotation_layers": [],
        "row_limit": 1000,
        "series_limit": 0,
        "series_limit_metric": "most",
        "group_others_when_limit_reached": False,
        "order_desc": True,
        "url_params": {"a": "{{ 1 }}"},
        "custom_params": {},
        "custom_form_data": {},
        "post_processing": [],
        "time_offsets": [],
        **more,
    }


def line_query(**more: Any) -> dict[str, Any]:
    return {
        "filters": [],
        "columns": [AXIS, "model"],
        "metrics": ["failing"],
        "row_limit": 10000,
        "series_columns": ["model"],
        "orderby": [["failing", False]],
        "post_processing": [PIVOT, RENAME, {"operation": "flatten"}],
        **more,
    }


def asked(params: dict[str, Any], sent: Any) -> dict[str, Any]:
    return visitor_queries.request(sent, visitor_queries.chart(params, 6, FIELDS), {"slice_id": 1})


def test_what_the_chart_sends_is_answered_and_nothing_else_of_it_reaches_superset() -> None:
    made = asked(TABLE, body(table_query(), stranger=SQL))
    assert set(made) == {"datasource", "queries", "force", "form_data", "result_format", "result_type"}
    assert (made["form_data"], made["force"]) == ({"slice_id": 1}, False)
    (query,) = made["queries"]
    assert not visitor_queries.FREE & set(query)
    assert query["filters"] == table_query()["filters"]
    assert asked(LINE, body(line_query()))["queries"] == [line_query()]


@pytest.mark.parametrize(
    "narrowed",
    [
        {"col": "model", "op": "IN", "val": ["resnet50", None, 1, 0.5, True]},
        {"col": "error", "op": "ILIKE", "val": "%conv_2d%"},
        {"col": "z_max", "op": ">=", "val": 2.5},
        {"col": "error", "op": "IS NOT NULL"},
        {"col": "started", "op": "TEMPORAL_RANGE", "val": 'DATEADD(DATETIME("now"), -7, day) : now'},
    ],
)
def test_filters_narrow_it(narrowed: dict[str, Any]) -> None:
    query = table_query(filters=[NEWEST, narrowed], columns=["error"], row_limit=10, row_offset=20, is_rowcount=True)
    assert asked(TABLE, body(query))["queries"][0]["filters"] == [NEWEST, narrowed]


def test_a_filter_of_another_chart_is_left_out() -> None:
    query = table_query(filters=[NEWEST, {"col": "fixes", "op": "IN", "val": [1]}])
    assert asked(TABLE, body(query))["queries"][0]["filters"] == [NEWEST]


LIKE = {"col": "error", "op": "ILIKE", "val": "%a" * 20}
STRANGE: list[dict[str, Any]] = [
    {"metrics": [SQL]},
    {"metrics": ["boards", SQL]},
    {"metrics": ["other"]},
    {"metrics": ["boards"] * 4},
    {"metrics": [{"expressionType": "SIMPLE", "aggregate": "MAX", "column": {"column_name": "op"}, "label": "m"}]},
    {"columns": [SQL]},
    {"columns": ["z_max"]},
    {"columns": [AXIS]},
    {"columns": ["op"] * 3},
    {"columns": "op"},
    {"orderby": [[SQL, True]]},
    {"orderby": [["z_max", True]]},
    {"orderby": [["op", "; DROP"]]},
    {"orderby": ["op"]},
    {"filters": []},
    {"filters": None},
    {"filters": {"a": 1}},
    {"filters": [NEWEST, "op"]},
    {"filters": [{**NEWEST, "val": True}]},
    {"filters": [NEWEST, {"col": SQL, "op": "==", "val": 1}]},
    {"filters": [NEWEST, LIKE]},
    {"filters": [NEWEST, {"col": "op", "op": "LIKE", "val": "a"}]},
    {"filters": [NEWEST, {"col": "op", "op": "REGEX", "val": "(a+)+$"}]},
    {"filters": [NEWEST, {"col": "op", "op": "==", "val": SQL}]},
    {"filters": [NEWEST, {"col": "op", "op": "IN", "val": "a"}]},
    {"filters": [NEWEST, {"col": "op", "op": "==", "val": float("nan")}]},
    {"filters": [NEWEST, {"col": "op", "op": "==", "val": 1 << 63}]},
    {"filters": [NEWEST] * 51},
    {"filters": [NEWEST, {"col": "op", "op": "IN", "val": ["a"] * 1001}]},
    {"filters": [NEWEST, {"col": "started", "op": "TEMPORAL_RANGE", "val": "DATEADD(" * 7 + "now" + ", 1, day)" * 7}]},
    {"extras": {"where": "1 = 1"}},
    {"extras": {"having": "1 = 1"}},
    {"extras": {"time_grain_sqla": "P1D"}},
    {"extras": {"transpile_to_dialect": True}},
    {"where": "1 = 1"},
    {"having": "1"},
    {"groupby": [SQL]},
    {"annotation_layers": [{"annotationType": "EVENT", "sourceType": "table", "value": 1, "name": "a"}]},
    {"time_offsets": ["1 year ago"]},
    {"time_range": "a" * 300},
    {"time_shift": "1 year"},
    {"granularity": "started"},
    {"is_timeseries": True},
    {"series_limit": 5},
    {"series_limit_metric": SQL},
    {"series_columns": [SQL]},
    {"row_limit": 1001},
    {"row_limit": 0},
    {"row_limit": None},
    {"row_limit": True},
    {"row_limit": "10"},
    {"row_offset": -1},
    {"row_offset": 10**9},
    {"result_type": "samples"},
    {"datasource": {"id": 7, "type": "table"}},
    {"apply_fetch_values_predicate": True},
    {"timeseries_limit_metric": SQL},
    {"group_others_when_limit_reached": True},
    {"post_processing": [PIVOT]},
    {"post_processing": [{"operation": "resample", "options": {"rule": "1s"}}]},
]


def test_all_else_in_a_query_is_refused() -> None:
    line, taken = re.compile(r"expected [^\n]*; without an account, only what"), []
    for change in STRANGE:
        try:
            asked(TABLE, body(table_query(**change)))
        except RefusedError as refused:
            taken += [] if line.match(str(refused)) else [(change, str(refused))]
        else:
            taken.append((change, "taken"))
    assert taken == []


@pytest.mark.parametrize(
    "change",
    [
        {"columns": [{**AXIS, "sqlExpression": "hex(randomblob(9))"}]},
        {"columns": [{**AXIS, "timeGrain": "P1D"}]},
        {"columns": [{**AXIS, "other": 1}]},
        {"post_processing": [PIVOT, PIVOT]},
        {"post_processing": [{**PIVOT, "options": {**PIVOT["options"], "columns": ["started"]}}]},
        {"post_processing": [{**PIVOT, "options": {**PIVOT["options"], "index": ["model"]}}]},
        {"post_processing": [{"operation": "rank", "options": {"metric": "boards"}}]},
        {"post_processing": [{"operation": ["pivot"]}]},
        {"post_processing": "pivot"},
    ],
)
def test_a_line_is_turned_as_its_kind_turns_it(change: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        asked(LINE, body(line_query(**change)))


@pytest.mark.parametrize(
    "change",
    [
        {"datasource": {"id": 7, "type": "table"}},
        {"datasource": {"id": 6, "type": "query"}},
        {"datasource": None},
        {"result_type": "query"},
        {"result_type": "samples"},
        {"result_type": "drill_detail"},
        {"result_format": "csv"},
        {"queries": []},
        {"queries": "x"},
        {"queries": [table_query()] * 4},
        {"queries": [None]},
    ],
)
def test_all_else_in_a_request_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        asked(TABLE, body(table_query(), **change))
    with pytest.raises(RefusedError):
        asked(TABLE, [])


def test_a_chart_with_a_condition_in_sql_is_for_people_with_an_account() -> None:
    params = {**TABLE, "adhoc_filters": [{"expressionType": "SQL", "sqlExpression": "1 = 1", "clause": "WHERE"}]}
    with pytest.raises(RefusedError, match="has a condition in SQL"):
        asked(params, body(table_query()))


def test_a_filter_lists_the_values_of_its_column_alone() -> None:
    sent = visitor_queries.filter_values("op", "failing", 6, FIELDS)
    query = {
        "columns": ["op"],
        "metrics": ["failing"],
        "orderby": [["failing", False]],
        "row_limit": 1000,
        "filters": [{"col": "op", "op": "ILIKE", "val": "%dot%"}],
    }
    assert visitor_queries.request(body(query), sent, {})["queries"] == [query]
    for change in ({"columns": ["error"]}, {"metrics": ["count"]}, {"row_limit": 50_000}, {"orderby": [[SQL, True]]}):
        with pytest.raises(RefusedError):
            visitor_queries.request(body({**query, **change}), sent, {})


def test_every_stored_chart_may_be_asked_for() -> None:
    for name, doc in ASSETS.charts.items():
        params = bundle.chart(doc, ASSETS, Source("sqlite:///x"))["params"]
        context = copy.deepcopy(viz.query_context(params))
        context["datasource"]["id"] = 6
        if params["viz_type"].startswith("big_number"):  # Superset's page sends no limit either
            context["queries"][0].pop("row_limit")
        sent = visitor_queries.chart(params, 6, ASSETS.datasets[doc.dataset].columns)
        (query,) = visitor_queries.request(context, sent, {})["queries"]
        assert query["filters"] == context["queries"][0]["filters"], name
