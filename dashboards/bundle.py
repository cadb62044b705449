"""Converts the files below assets/ to a bundle in Superset's own format, ready for its importer.

    assets/datasets/<view>.yaml      uuid, columns and metrics of one SQL view; columns that are links or texts
    assets/charts/<name>.yaml        uuid, name, dataset, kind, params
    assets/dashboards/<name>.yaml    uuid, title, slug, rows of charts, filters
    assets/alerts/<name>.yaml        an alert or a report: SQL and a limit, or only a time; the chart it sends
    assets/filters.yaml              the native filters that dashboards refer to
    assets/retired.yaml              uuids of objects in earlier bundles, by kind

Each object is one file, and other files refer to it by the file's name; an object's uuid never changes. Superset does
not report dangling names, so checks.py checks everything.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from opscope.base.statuses import label_colours
from opscope.base.yaml_text import read_yaml
from opscope.dashboards import links
from opscope.dashboards.home import ROOM
from opscope.dashboards.layout import native_filters, position
from opscope.dashboards.viz import params, query_context

ASSETS = ROOM / "assets"
CSS = ASSETS / "dashboard.css"
NAMESPACE = uuid.UUID("7b1e6c1e-4f0f-5c8e-9d63-0f5a0b6c2d11")
"""Namespace of the uuids that are derived from a name, because stored questions have no file here."""
DATABASE_UUID = str(uuid.uuid5(NAMESPACE, "database"))
DATABASE_NAME = "opscope results"
TYPES = {"time": "TIMESTAMP", "text": "TEXT", "number": "DOUBLE PRECISION", "count": "BIGINT", "flag": "BOOLEAN"}
"""Type of a column in an asset file -> its type in Superset."""

Doc = dict[str, Any]


@dataclass(frozen=True)
class Assets:
    """Everything below assets/, by the names of the files."""

    datasets: Mapping[str, Doc]
    charts: Mapping[str, Doc]
    dashboards: Mapping[str, Doc]
    filters: Mapping[str, Doc]
    retired: Mapping[str, list[str]]
    alerts: Mapping[str, Doc] = field(default_factory=dict)

    @property
    def wall(self) -> list[str]:
        """The slugs of the dashboards for a screen on the wall."""
        return [doc["slug"] for doc in self.dashboards.values() if doc.get("wall")]

    @property
    def slugs(self) -> list[str]:
        """The slugs of the dashboards, in order."""
        return [doc["slug"] for doc in self.dashboards.values()]


@dataclass(frozen=True)
class ViewComment:
    """The comment of a view."""

    holds: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column -> what it means."""


@dataclass(frozen=True)
class Source:
    """What other rooms of the project add to the asset files."""

    database_uri: str
    artifact_url: str = ""
    descriptions: Mapping[str, ViewComment] = field(default_factory=dict)
    """SQL view -> its comment."""
    questions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name of a stored question -> the question, and its SQL."""


MADE = frozenset({"text_of", "link", "without_number"})
"""Keys of a column that Superset computes: its view does not have it."""


def stored_columns(dataset: Doc) -> list[str]:
    """The columns that a dataset takes from its view."""
    return [name for name, spec in dataset["columns"].items() if not MADE & set(spec)]


def read(folder: Path = ASSETS) -> Assets:
    """Reads the files of `folder`; dashboards are sorted by the order in their files."""

    def docs_of_kind(kind: str) -> dict[str, Doc]:
        return {path.stem: _yaml(path) for path in sorted((folder / kind).glob("*.yaml"))}

    dashboards = sorted(docs_of_kind("dashboards").items(), key=lambda item: item[1]["order"])
    return Assets(
        docs_of_kind("datasets"),
        docs_of_kind("charts"),
        dict(dashboards),
        _yaml(folder / "filters.yaml"),
        _yaml(folder / "retired.yaml"),
        docs_of_kind("alerts"),
    )


def _yaml(path: Path) -> Any:
    return read_yaml(path)


def render(assets: Assets, source: Source) -> dict[str, Doc]:
    """Renders the bundle: path in the bundle -> the content of the file."""
    files: dict[str, Doc] = {
        "metadata.yaml": {"version": "1.0.0", "timestamp": "2026-01-01T00:00:00+00:00"},
        "databases/results.yaml": _database(source),
    }
    for name, doc in assets.datasets.items():
        files[f"datasets/results/{name}.yaml"] = dataset(name, doc, source)
    for name, doc in assets.charts.items():
        files[f"charts/{name}.yaml"] = chart(doc, assets, source)
    for name, doc in assets.dashboards.items():
        files[f"dashboards/{name}.yaml"] = _dashboard(doc, assets)
    for name, (asks, sql) in source.questions.items():
        files[f"queries/results/{name}.yaml"] = {
            "uuid": str(uuid.uuid5(NAMESPACE, f"question {name}")),
            "label": asks,
            "description": f"opscope sql {name}",
            "sql": sql,
            "schema": None,
            "catalog": None,
            "version": "1.0.0",
            "database_uuid": DATABASE_UUID,
        }
    return files


def write(files: Mapping[str, Doc], folder: Path) -> None:
    """Writes a bundle to `folder`, which then contains nothing else."""
    for name, doc in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(doc, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _database(source: Source) -> Doc:
    return {
        "uuid": DATABASE_UUID,
        "database_name": DATABASE_NAME,
        "sqlalchemy_uri": source.database_uri,
        "cache_timeout": None,
        "expose_in_sqllab": True,
        "allow_run_async": False,
        "allow_ctas": False,
        "allow_cvas": False,
        "allow_dml": False,
        "allow_file_upload": False,
        "extra": {"allows_virtual_table_explore": True},
        "version": "1.0.0",
    }


def dataset(name: str, doc: Doc, source: Source) -> Doc:
    """One dataset over the view `name`."""
    comment = source.descriptions.get(name, ViewComment())
    columns = []
    for column, spec in doc["columns"].items():
        spec = {"type": "text", **spec}
        expression = _expression(spec, source)
        columns.append(
            {
                "column_name": column,
                "verbose_name": spec["label"],
                "type": TYPES[spec["type"]],
                "is_dttm": spec["type"] == "time",
                "is_active": True,
                "filterable": True,
                "groupby": spec["type"] != "number",
                "description": comment.columns.get(column),
                "python_date_format": None,
                "expression": expression,
                "extra": None,
            }
        )
    metrics = [
        {
            "metric_name": metric,
            "verbose_name": spec["label"],
            "metric_type": None,
            "expression": _of_metric(spec, doc, source),
            "d3format": None if "first_of" in spec else spec.get("format", ",d"),
            "description": spec.get("description"),
        }
        for metric, spec in doc["metrics"].items()
    ]
    return {
        "uuid": doc["uuid"],
        "table_name": name,
        "main_dttm_col": doc.get("time"),
        "description": comment.holds,
        "default_endpoint": None,
        "offset": 0,
        "cache_timeout": None,
        "catalog": None,
        "schema": None,
        "sql": None,
        "params": None,
        "template_params": None,
        "filter_select_enabled": True,
        "fetch_values_predicate": None,
        "extra": None,
        "normalize_columns": False,
        "always_filter_main_dttm": False,
        "metrics": metrics,
        "columns": columns,
        "version": "1.0.0",
        "database_uuid": DATABASE_UUID,
    }


def _expression(spec: Doc, source: Source) -> str | None:
    """The SQL of a column that its view lacks: an escaped text, a link, a stage without the number to sort it by."""
    if "text_of" in spec:
        return links.text(spec["text_of"])
    if "link" in spec:
        return links.LINKS[spec["link"]](spec["link"], source.artifact_url)
    if "without_number" in spec:
        return f"SUBSTR({spec['without_number']}, 3)"
    return None


def _of_metric(spec: Doc, doc: Doc, source: Source) -> str:
    """The SQL of a metric; `first_of` shows one value of a column, such as the log of one of the boards."""
    if "first_of" not in spec:
        return spec["expression"]
    column = spec["first_of"]
    return f"MAX({_expression(doc['columns'][column], source) or column})"


def chart_params(doc: Doc, assets: Assets) -> Doc:
    """Merges the params of a chart's kind, of its dataset, and its own."""
    time = assets.datasets[doc["dataset"]].get("time")
    return params(doc["kind"], doc.get("params", {}), doc.get("where", []), time)


def _labelled(full: Doc, dataset: Doc) -> Doc:
    """A heatmap's metric as SQL with its label, because a heatmap shows a stored metric by its raw name."""
    if full["viz_type"] != "heatmap_v2":
        return full
    spec = dataset["metrics"][full["metric"]]
    return full | {
        "metric": {
            "expressionType": "SQL",
            "sqlExpression": spec["expression"],
            "label": spec["label"],
            "optionName": f"metric_{full['metric']}",
            "hasCustomLabel": True,
        }
    }


def chart(doc: Doc, assets: Assets, source: Source) -> Doc:
    """One chart, described by its own text and by the comment of its view."""
    full = _labelled(chart_params(doc, assets), assets.datasets[doc["dataset"]])
    texts = [doc.get("description", ""), source.descriptions.get(doc["dataset"], ViewComment()).holds]
    return {
        "uuid": doc["uuid"],
        "slice_name": doc["name"],
        "description": "\n\n".join(filter(None, texts)),
        "certified_by": None,
        "certification_details": None,
        "viz_type": doc["kind"],
        "params": full,
        "cache_timeout": None,
        "query_context": json.dumps(query_context(full)),
        "version": "1.0.0",
        "dataset_uuid": assets.datasets[doc["dataset"]]["uuid"],
    }


def _dashboard(doc: Doc, assets: Assets) -> Doc:
    numbers = {name: number for number, name in enumerate(assets.charts, 1)}
    return {
        "uuid": doc["uuid"],
        "dashboard_title": doc["title"],
        "description": doc["description"],
        "css": CSS.read_text(encoding="utf-8"),
        "slug": doc["slug"],
        "certified_by": "",
        "certification_details": "",
        "published": True,
        "version": "1.0.0",
        "position": position(doc, assets.charts, numbers, assets.dashboards),
        "metadata": {
            "color_scheme": "supersetColors",
            "label_colors": label_colours(),
            "shared_label_colors": list(label_colours()),
            "color_scheme_domain": [],
            "refresh_frequency": 0,
            "expanded_slices": {},
            "timed_refresh_immune_slices": [],
            "default_filters": "{}",
            "cross_filters_enabled": True,
            "chart_configuration": {},
            "global_chart_configuration": {"scope": {"rootPath": ["ROOT_ID"], "excluded": []}, "chartsInScope": []},
            "native_filter_configuration": native_filters(doc, assets, numbers),
        },
    }
