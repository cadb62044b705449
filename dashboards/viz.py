"""Kinds of charts: the params that Superset's form would fill in, so that a chart's file holds only its own.

A chart's `params` override those of its kind. `query_context` is what Superset stores when a user presses *Save*: a
chart written by hand has none, and without it a chart cannot be exported as CSV, warmed up or checked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from opscope.dashboards.inside.series_colours import SCHEME

Params = dict[str, Any]

_SERIES: Params = {
    "time_grain_sqla": None,
    "order_desc": True,
    "row_limit": 10000,
    "color_scheme": SCHEME,
    "show_legend": True,
    "legendType": "scroll",
    "legendOrientation": "top",
    "rich_tooltip": True,
    "x_axis_sort_asc": True,
    "sort_series_type": "name",
    "sort_series_ascending": True,
    "x_axis_time_format": "%b %d",
    "tooltipTimeFormat": "%Y-%m-%d",
    "y_axis_format": ",d",
    "y_axis_bounds": [None, None],
    "y_axis_title_margin": 40,
    "y_axis_title_position": "Left",
    "truncateXAxis": True,
    "comparison_type": "values",
    "annotation_layers": [],
}

KINDS: dict[str, Params] = {
    "big_number_total": {
        "header_font_size": 0.3,
        "subtitle_font_size": 0.125,
        "time_format": "smart_date",
        "y_axis_format": ",d",
    },
    "big_number": {
        "time_grain_sqla": None,
        "show_trend_line": True,
        "show_timestamp": False,
        "start_y_axis_at_zero": False,
        "header_font_size": 0.3,
        "subheader_font_size": 0.125,
        "rolling_type": "None",
        "time_format": "%Y-%m-%d",
        "color_picker": {"r": 46, "g": 125, "b": 50, "a": 1},
    },
    "echarts_timeseries_bar": _SERIES | {"orientation": "vertical", "stack": "Stack", "showTooltipTotal": True},
    "echarts_timeseries_line": _SERIES
    | {"seriesType": "line", "markerEnabled": True, "markerSize": 4, "opacity": 0.2, "show_value": False},
    "heatmap_v2": {
        "row_limit": 10000,
        "sort_x_axis": "alpha_asc",
        "sort_y_axis": "alpha_desc",
        "normalize_across": "heatmap",
        "legend_type": "continuous",
        "linear_color_scheme": "schemeRdYlGn",
        "bottom_margin": "auto",
        "left_margin": "auto",
        "x_axis_label_rotation": 45,
        "xscale_interval": 1,
        "yscale_interval": 1,
        "show_legend": False,
        "show_percentage": False,
        "show_values": True,
        "normalized": False,
        "x_axis_time_format": "smart_date",
        "value_bounds": [None, None],
    },
    "table": {
        "query_mode": "aggregate",
        "all_columns": [],
        "percent_metrics": [],
        "order_desc": True,
        "order_by_cols": [],
        "row_limit": 1000,
        "page_length": 15,
        "include_search": True,
        "table_timestamp_format": "%Y-%m-%d %H:%M UTC",
        "allow_render_html": False,
        "show_cell_bars": False,
        "color_pn": False,
        "time_grain_sqla": None,
    },
    "pivot_table_v2": {
        "metricsLayout": "COLUMNS",
        "row_limit": 10000,
        "order_desc": True,
        "aggregateFunction": "Sum",
        "rowTotals": False,
        "colTotals": False,
        "valueFormat": ",d",
        "date_format": "smart_date",
        "rowOrder": "key_a_to_z",
        "colOrder": "key_a_to_z",
        "time_grain_sqla": None,
    },
}
"""Superset's name of a kind of chart -> its default params."""

_OF_ALL = "groupby metric metrics x_axis timeseries_limit_metric row_limit order_desc"
_OF_SERIES = (
    "contributionMode group_others_when_limit_reached legendMargin limit logAxis truncateYAxis xAxisForceCategorical "
    "xAxisLabelRotation x_axis_sort x_axis_title x_axis_title_margin y_axis_title"
)
_WITHOUT_DEFAULT = {
    "big_number_total": "conditional_formatting subtitle",
    "big_number": "subheader y_axis_format",
    "echarts_timeseries_bar": _OF_SERIES,
    "echarts_timeseries_line": _OF_SERIES,
    "heatmap_v2": "y_axis_format",
    "table": "column_config conditional_formatting",
    "pivot_table_v2": "groupbyRows groupbyColumns",
}
"""Kind -> the params that a chart may have and that are not there without its file."""


def known_params(kind: str) -> frozenset[str]:
    """The params that a chart of that kind may have. Superset ignores any other without a word."""
    return frozenset({*KINDS[kind], *_OF_ALL.split(), *_WITHOUT_DEFAULT[kind].split()})


def params(kind: str, own: Params, where: Sequence[tuple[str, str, Any]], time: str | None) -> Params:
    """All params of a chart. `where`: its own conditions (column, operator, value); `time`: the column of nights."""
    filters = [condition(*each) for each in where]
    if time:
        filters.append(condition(time, "TEMPORAL_RANGE", "No filter"))
    return {"viz_type": kind, **KINDS[kind], "adhoc_filters": filters, "extra_form_data": {}, **own}


def condition(column: str, operator: str, value: Any) -> Params:
    """A condition of a chart or of a filter's list, as Superset stores it."""
    words = {"subject": column, "operator": operator, "comparator": value}
    return {"clause": "WHERE", "expressionType": "SIMPLE", **words}


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def metrics(chart: Params) -> list[str]:
    """The metrics that a chart shows."""
    return _many(chart.get("metrics")) + _many(chart.get("metric"))


def columns(chart: Params) -> list[str]:
    """The columns that a chart shows or groups by, its x axis first."""
    names = [chart["x_axis"]] if chart.get("x_axis") else []
    for key in ("groupby", "groupbyRows", "groupbyColumns", "all_columns"):
        names += _many(chart.get(key))
    return names


def _axis(column: str, grain: str | None) -> Params:
    of = {"columnType": "BASE_AXIS", "timeGrain": grain, "sqlExpression": column, "label": column}
    return of | {"expressionType": "SQL"}


def query_context(chart: Params) -> dict[str, Any]:
    """The queries of a chart on its dataset; the importer fills in the dataset's id."""
    raw = chart.get("query_mode") == "raw"
    column_list: list[Any] = list(columns(chart))
    if chart["viz_type"] == "big_number":
        column_list = [_axis(chart["x_axis"], None)]
    elif chart.get("x_axis") and chart["viz_type"] != "heatmap_v2":
        column_list[0] = _axis(chart["x_axis"], chart.get("time_grain_sqla"))
    shown = metrics(chart)
    order = chart.get("timeseries_limit_metric") or (shown[0] if shown else None)
    sorted_by = [[order, not chart.get("order_desc", True)]] if order else []
    if raw:
        sorted_by = [json.loads(text) for text in chart.get("order_by_cols", ())]
    filters = [{"col": f["subject"], "op": f["operator"], "val": f["comparator"]} for f in chart["adhoc_filters"]]
    query: dict[str, Any] = {
        "columns": column_list,
        "metrics": None if raw else shown,
        "filters": filters,
        "extras": {"having": "", "where": ""},
        "applied_time_extras": {},
        "row_limit": chart.get("row_limit", 10000),
        "order_desc": chart.get("order_desc", True),
        "orderby": sorted_by,
        "annotation_layers": [],
        "url_params": {},
        "custom_params": {},
        "custom_form_data": {},
    }
    if chart.get("limit"):
        query |= {
            "series_columns": _many(chart.get("groupby")),
            "series_limit": chart["limit"],
            "series_limit_metric": order,
            "group_others_when_limit_reached": chart.get("group_others_when_limit_reached", False),
        }
    return {
        "datasource": {"id": 0, "type": "table"},
        "force": False,
        "queries": [query],
        "form_data": {**chart, "force": False, "result_format": "json", "result_type": "full"},
        "result_format": "json",
        "result_type": "full",
    }
