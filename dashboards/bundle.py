"""Converts the files below assets/ to a bundle in Superset's own format, ready for its importer.

Superset does not report dangling names, so checks.py checks everything.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from opscope.base.labels import label_colours
from opscope.dashboards import asset_files, links
from opscope.dashboards.asset_files import NAMESPACE, Assets, Chart, Column, Dashboard, Dataset, Metric, uuid_of
from opscope.dashboards.inside.series_colours import SCHEME
from opscope.dashboards.layout import native_filters, position
from opscope.dashboards.viz import params, query_context

CSS = asset_files.ASSETS / "dashboard.css"
DATABASE_UUID = str(uuid.uuid5(NAMESPACE, "database"))
DATABASE_NAME = "opscope results"
TYPES = {"time": "TIMESTAMP", "text": "TEXT", "number": "DOUBLE PRECISION", "count": "BIGINT", "flag": "BOOLEAN"}
"""Type of a column in an asset file -> its type in Superset."""

TOTALS = """\
{%- set shown = (columns or []) + ((filter or []) | map(attribute="col") | list) -%}
{%- set stored = metrics is defined and metrics is not none and not metrics | reject("string") | list -%}
SELECT * FROM VIEW{% if stored and not shown | select("in", COLUMNS) | list %} WHERE model = ''{% endif %}"""
"""The SQL of a dataset with totals, a template of Superset's: stored metrics read these rows alone, unless the query
shows or narrows models. Of 60 models, that is one row in thirty."""

Doc = dict[str, Any]


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


def render(assets: Assets, source: Source) -> dict[str, Doc]:
    """Renders the bundle: path in the bundle -> the content of the file."""
    files: dict[str, Doc] = {
        "metadata.yaml": {"version": "1.0.0", "timestamp": "2026-01-01T00:00:00+00:00"},
        "databases/results.yaml": _database(source),
    }
    for name, about in assets.datasets.items():
        files[f"datasets/results/{name}.yaml"] = dataset(name, about, source)
    for name, spec in assets.charts.items():
        files[f"charts/{name}.yaml"] = chart(spec, assets, source)
    for name, page in assets.dashboards.items():
        files[f"dashboards/{name}.yaml"] = _dashboard(page, assets)
    for name, (asks, sql) in source.questions.items():
        files[f"queries/results/{name}.yaml"] = {
            "uuid": uuid_of("question", name),
            "label": asks,
            "description": f"opscope sql {name}",
            "sql": sql,
            **dict.fromkeys(("schema", "catalog")),
            "version": "1.0.0",
            "database_uuid": DATABASE_UUID,
        }
    return files


def embedded_uuid(of: str) -> str:
    """The id by which a frame shows the dashboard of the uuid `of` (inside/embedding.py)."""
    return str(uuid.uuid5(uuid.UUID(of), "embedded"))


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
        **dict.fromkeys(("allow_run_async", "allow_ctas", "allow_cvas", "allow_dml", "allow_file_upload"), False),
        "extra": {"allows_virtual_table_explore": True},
        "version": "1.0.0",
    }


def dataset(name: str, about: Dataset, source: Source) -> Doc:
    """One dataset over the view `name`."""
    comment = source.descriptions.get(name, ViewComment())
    columns = [
        {
            "column_name": column,
            "verbose_name": spec.label,
            "type": TYPES[spec.type],
            "is_dttm": spec.type == "time",
            **dict.fromkeys(("is_active", "filterable"), True),
            "groupby": spec.type != "number",
            "description": comment.columns.get(column),
            "expression": _expression(spec, source),
            **dict.fromkeys(("python_date_format", "extra")),
        }
        for column, spec in about.columns.items()
    ]
    metrics = [
        {
            "metric_name": metric,
            "verbose_name": spec.label,
            "metric_type": None,
            "expression": _of_metric(spec, about, source),
            "d3format": None if spec.first_of else spec.format,
            "description": spec.description,
        }
        for metric, spec in about.metrics.items()
    ]
    return {
        "uuid": about.uuid,
        "table_name": name,
        "main_dttm_col": about.time,
        "description": comment.holds,
        **dict.fromkeys(("default_endpoint", "cache_timeout", "catalog", "schema", "params", "template_params")),
        **dict.fromkeys(("fetch_values_predicate", "extra")),
        "offset": 0,
        "sql": _totals(name, about.totals) if about.totals else None,
        "filter_select_enabled": True,
        **dict.fromkeys(("normalize_columns", "always_filter_main_dttm"), False),
        "metrics": metrics,
        "columns": columns,
        "version": "1.0.0",
        "database_uuid": DATABASE_UUID,
    }


def _totals(view: str, columns: Sequence[str]) -> str:
    """The SQL of a dataset whose rows with empty `columns` are totals."""
    return TOTALS.replace("VIEW", view).replace("COLUMNS", json.dumps(columns))


def _expression(column: Column, source: Source) -> str | None:
    """The SQL of a column that its view lacks: an escaped text, a link, a stage without the number to sort it by."""
    if column.text_of:
        return links.text(column.text_of, arrows=column.arrows)
    if column.link:
        return links.LINKS[column.link](column.link, source.artifact_url)
    return f"SUBSTR({column.without_number}, 3)" if column.without_number else None


def _of_metric(metric: Metric, about: Dataset, source: Source) -> str:
    """The SQL of a metric."""
    if not metric.first_of:
        return metric.expression
    return f"MAX({_expression(about.columns[metric.first_of], source) or metric.first_of})"


def chart_params(spec: Chart, assets: Assets) -> Doc:
    """Merges the params of a chart's kind, of its dataset, and its own."""
    where = [(condition.column, condition.operator, condition.value) for condition in spec.where]
    return params(spec.kind, spec.params, where, assets.datasets[spec.dataset].time)


def _labelled(full: Doc, about: Dataset) -> Doc:
    """A heatmap's metric as SQL with its label, because a heatmap shows a stored metric by its raw name."""
    if full["viz_type"] != "heatmap_v2":
        return full
    metric = about.metrics[full["metric"]]
    return full | {
        "metric": {
            "expressionType": "SQL",
            "sqlExpression": metric.expression,
            "label": metric.label,
            "optionName": f"metric_{full['metric']}",
            "hasCustomLabel": True,
        }
    }


def chart(spec: Chart, assets: Assets, source: Source) -> Doc:
    """One chart, described by its own text and by the comment of its view."""
    full = _labelled(chart_params(spec, assets), assets.datasets[spec.dataset])
    texts = [spec.description, source.descriptions.get(spec.dataset, ViewComment()).holds]
    return {
        "uuid": spec.uuid,
        "slice_name": spec.name,
        "description": "\n\n".join(filter(None, texts)),
        "certified_by": None,
        "certification_details": None,
        "viz_type": spec.kind,
        "params": full,
        "cache_timeout": None,
        "query_context": json.dumps(query_context(full)),
        "version": "1.0.0",
        "dataset_uuid": assets.datasets[spec.dataset].uuid,
    }


TONE = 60
"""Per cent of its own colour that a big number has; the rest is that of the text around it, which is black on white or
white on black."""


def legible(page: Dashboard, assets: Assets) -> str:
    """CSS by which the colours of big numbers can be read in light and in dark mode: no colour has a contrast of
    4.5 with both, and Superset has one for the two."""
    charts = [assets.charts[name] for name in page.charts]
    rows = [
        row
        for each in charts
        if each.kind == "big_number_total"
        for row in each.params.get("conditional_formatting", ())
    ]
    lines = []
    for colour in sorted({row["colorScheme"] for row in rows}):
        inline = ", ".join(str(part) for part in bytes.fromhex(colour[1:]))
        mixed = f"color-mix(in srgb, {colour} {TONE}%, currentColor)"  # of `color` itself that is the inherited one
        lines.append(
            f".superset-legacy-chart-big-number .header-line[style*='{inline}'] {{ color: {mixed} !important; }}\n"
        )
    return "".join(lines)


def _dashboard(page: Dashboard, assets: Assets) -> Doc:
    numbers = {name: number for number, name in enumerate(assets.charts, 1)}
    return {
        "uuid": page.uuid,
        "dashboard_title": page.title,
        "description": page.description,
        "css": CSS.read_text(encoding="utf-8").replace("TITLE", json.dumps(page.title)) + legible(page, assets),
        "slug": page.slug,
        "certified_by": "",
        "certification_details": "",
        "published": True,
        "version": "1.0.0",
        "position": position(page, assets, numbers),
        "metadata": {
            "color_scheme": SCHEME,
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
            "native_filter_configuration": native_filters(page, assets, numbers),
        },
    }
