"""Converts a dashboard's rows of charts and its filters to Superset's layout tree and native filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.dashboards.asset_files import WIDTH, Assets, Chart, Dashboard, Filter
from opscope.dashboards.viz import condition

Doc = dict[str, Any]

ROOT = ["ROOT_ID", "GRID_ID"]
NIGHT = "/night/"
"""Where the server shows night by cause (inside/night_page.py)."""
TEXT_HEIGHT = 14
"""Height of the links and the text at the top of a dashboard."""


def links(page: Dashboard, dashboards: Mapping[str, Dashboard]) -> str:
    """Markdown that leads from a dashboard to the page of the night and to all the others."""
    others = [
        f"**{other.title}**" if other.slug == page.slug else f"[{other.title}]({address(other.slug)})"
        for other in dashboards.values()
    ]
    return " · ".join([f"[Night]({NIGHT})", *others])


def address(slug: str) -> str:
    """The path of a dashboard on the server."""
    return f"/superset/dashboard/{slug}/"


def position(page: Dashboard, assets: Assets, numbers: Mapping[str, int]) -> Doc:
    """The layout tree: links and text, then one ROW per row of the file, its charts as wide and high as it says."""
    tree: Doc = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "HEADER_ID": {"type": "HEADER", "id": "HEADER_ID", "meta": {"text": page.title}},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "parents": ["ROOT_ID"], "children": []},
    }
    text = {"code": f"{links(page, assets.dashboards)}\n\n{page.text}", "width": WIDTH, "height": TEXT_HEIGHT}
    rows = [[_cell("MARKDOWN", "0", 0, text)]]
    for number, row in enumerate(page.rows, 1):
        rows.append([])
        for name, width in row.charts.items():
            chart = assets.charts[name]
            # chartId is a number within the bundle: the importer replaces it, but fails if it is missing.
            meta = {"chartId": numbers[name], "uuid": chart.uuid, "sliceName": chart.name}
            rows[number].append(_cell("CHART", name, number, meta | {"width": width, "height": row.height}))
    for number, cells in enumerate(rows):
        tree["GRID_ID"]["children"].append(f"ROW-{number}")
        tree[f"ROW-{number}"] = {
            "type": "ROW",
            "id": f"ROW-{number}",
            "parents": ROOT,
            "children": [cell["id"] for cell in cells],
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
        tree |= {cell["id"]: cell for cell in cells}
    return tree


def _cell(kind: str, name: str, row: int, meta: Doc) -> Doc:
    return {"type": kind, "id": f"{kind}-{name}", "children": [], "parents": [*ROOT, f"ROW-{row}"], "meta": meta}


def native_filters(page: Dashboard, assets: Assets, numbers: Mapping[str, int]) -> list[Doc]:
    """The dashboard's native filters, in the order of its file."""
    filters = []
    for name in page.filters:
        chosen = assets.filters[name]
        excluded = [numbers[chart] for chart in page.charts if _is_excluded(name, assets.charts[chart], assets)]
        extra: Doc = {"sortMetric": chosen.sort} if chosen.sort else {}
        if chosen.first:
            extra["requiredFirst"] = True  # applied when the page opens, not at the next *Apply*
        if chosen.column:
            # The empty value, of a backend without a board, say, is none of its list.
            no_empty = condition(chosen.column, "!=", "<empty string>")  # as Superset names it
            extra["adhoc_filters"] = [no_empty | {"operatorId": "NOT_EQUALS"}]
        of_column = chosen.column and {
            "column": {"name": chosen.column},
            "datasetUuid": assets.datasets[chosen.dataset].uuid,
        }
        filters.append(
            extra
            | {
                "id": f"NATIVE_FILTER-{name}",
                "name": chosen.name,
                "type": "NATIVE_FILTER",
                "filterType": "filter_select" if of_column else "filter_time",
                "description": chosen.description,
                "controlValues": _controls(chosen),
                "targets": [of_column or {}],
                "scope": {"rootPath": ["ROOT_ID"], "excluded": excluded},
                "cascadeParentIds": [],
                "defaultDataMask": _default(chosen.default),
            }
        )
    return filters


def _is_excluded(name: str, chart: Chart, assets: Assets) -> bool:
    """Whether a filter does not apply to a chart, such as a time filter to a chart of the newest night.

    A status filter does not apply to rates: over the ops of one status, a rate would be 0 or 1.
    """
    if chart.unfiltered:
        return True
    if name == "nights":
        newest = assets.datasets[chart.dataset].newest_only
        return newest or any(condition.column in ("newest", "tonight") for condition in chart.where)
    return name == "status" and chart.rate


def _controls(chosen: Filter) -> Doc:
    if not chosen.column:
        return {"enableEmptyFilter": False}
    order = {"sortAscending": False} if chosen.sort else {}
    return order | {
        "enableEmptyFilter": chosen.first,
        "defaultToFirstItem": chosen.first,
        "multiSelect": not chosen.one,
        "searchAllOptions": chosen.many,
        "inverseSelection": False,
        "creatable": False,
    }


def _default(span: str) -> Doc:
    if not span:
        return {"extraFormData": {}, "filterState": {}, "ownState": {}}
    return {"extraFormData": {"time_range": span}, "filterState": {"value": span}, "ownState": {}}
