"""Converts a dashboard's rows of charts and its filters to Superset's layout tree and native filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscope.dashboards.bundle import Assets, Doc

WIDTH = 12
"""Number of columns in Superset's grid."""
ROOT = ["ROOT_ID", "GRID_ID"]


TEXT_HEIGHT = 14
"""Height of the links and the text at the top of a dashboard."""


def links(doc: Doc, dashboards: Mapping[str, Doc]) -> str:
    """Markdown that leads from a dashboard to all the others."""
    return " · ".join(
        f"**{other['title']}**" if other["slug"] == doc["slug"] else f"[{other['title']}]({address(other['slug'])})"
        for other in dashboards.values()
    )


def address(slug: str) -> str:
    """The path of a dashboard on the server."""
    return f"/superset/dashboard/{slug}/"


def position(doc: Doc, charts: Mapping[str, Doc], numbers: Mapping[str, int], dashboards: Mapping[str, Doc]) -> Doc:
    """The layout tree: links and text, then one ROW per row of the file, its charts as wide and high as it says."""
    tree: Doc = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "HEADER_ID": {"type": "HEADER", "id": "HEADER_ID", "meta": {"text": doc["title"]}},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "parents": ["ROOT_ID"], "children": []},
    }
    head = {"text": f"{links(doc, dashboards)}\n\n{doc['text']}", "height": TEXT_HEIGHT}
    for number, row in enumerate([head, *doc["rows"]]):
        name = f"ROW-{number}"
        tree["GRID_ID"]["children"].append(name)
        cells = [_text(name, number, row)] if "text" in row else []
        cells += [
            _chart(name, chart, width, row["height"], charts, numbers) for chart, width in row.get("charts", {}).items()
        ]
        tree[name] = {
            "type": "ROW",
            "id": name,
            "parents": ROOT,
            "children": [cell["id"] for cell in cells],
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
        tree |= {cell["id"]: cell for cell in cells}
    return tree


def _chart(row: str, name: str, width: int, height: int, charts: Mapping[str, Doc], numbers: Mapping[str, int]) -> Doc:
    # chartId is a number within the bundle: the importer replaces it, but fails if it is missing.
    meta = {
        "chartId": numbers[name],
        "uuid": charts[name]["uuid"],
        "sliceName": charts[name]["name"],
        "width": width,
        "height": height,
    }
    return {"type": "CHART", "id": f"CHART-{name}", "children": [], "parents": [*ROOT, row], "meta": meta}


def _text(row: str, number: int, doc: Doc) -> Doc:
    meta = {"code": doc["text"], "width": WIDTH, "height": doc["height"]}
    return {"type": "MARKDOWN", "id": f"MARKDOWN-{number}", "children": [], "parents": [*ROOT, row], "meta": meta}


def native_filters(doc: Doc, assets: Assets, numbers: Mapping[str, int]) -> list[Doc]:
    """The dashboard's native filters, in the order of its file."""
    chart_names = charts_of(doc)
    filters = []
    for name, overrides in doc["filters"].items():
        settings: dict[str, Any] = {**assets.filters[name], **(overrides or {})}
        excluded = [numbers[chart] for chart in chart_names if _is_excluded(name, assets.charts[chart], assets)]
        extra: Doc = {"sortMetric": settings["sort"]} if "sort" in settings else {}
        if settings.get("first"):
            extra["requiredFirst"] = True  # applied when the page opens, not at the next *Apply*
        filters.append(
            extra
            | {
                "id": f"NATIVE_FILTER-{name}",
                "name": settings["name"],
                "type": "NATIVE_FILTER",
                "filterType": "filter_time" if name == "nights" else "filter_select",
                "description": settings.get("description", ""),
                "controlValues": _controls(name, settings),
                "targets": [{}]
                if name == "nights"
                else [
                    {
                        "column": {"name": settings["column"]},
                        "datasetUuid": assets.datasets[settings["dataset"]]["uuid"],
                    }
                ],
                "scope": {"rootPath": ["ROOT_ID"], "excluded": excluded},
                "cascadeParentIds": [],
                "defaultDataMask": _default(settings),
            }
        )
    return filters


def _is_excluded(name: str, chart: Doc, assets: Assets) -> bool:
    """Whether a filter does not apply to a chart, such as a time filter to a chart of the newest night.

    A status filter does not apply to rates: over the ops of one status, a rate would be 0 or 1.
    """
    if chart.get("unfiltered"):
        return True
    if name == "nights":
        newest = assets.datasets[chart["dataset"]].get("newest_only", False)
        return newest or any(condition["column"] == "newest" for condition in chart.get("where", ()))
    return name == "status" and chart.get("rate", False)


def charts_of(doc: Doc) -> list[str]:
    """The charts of a dashboard, from top to bottom."""
    return [chart for row in doc["rows"] for chart in row.get("charts", {})]


def _controls(name: str, doc: Doc) -> Doc:
    if name == "nights":
        return {"enableEmptyFilter": False}
    first = bool(doc.get("first"))
    order = {"sortAscending": False} if "sort" in doc else {}
    return order | {
        "enableEmptyFilter": first,
        "defaultToFirstItem": first,
        "multiSelect": not doc.get("one", False),
        "searchAllOptions": bool(doc.get("many")),
        "inverseSelection": False,
        "creatable": False,
    }


def _default(doc: Doc) -> Doc:
    span = doc.get("default")
    if not span:
        return {"extraFormData": {}, "filterState": {}, "ownState": {}}
    return {"extraFormData": {"time_range": span}, "filterState": {"value": span}, "ownState": {}}
