"""Checks the assets, because Superset's importer accepts dangling names without an error and charts fail later."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from opscope.dashboards.bundle import Assets, chart_params
from opscope.dashboards.layout import WIDTH, charts_of
from opscope.dashboards.viz import KINDS, columns, metrics

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def problems(assets: Assets) -> list[str]:
    """Returns one line per problem; empty if the assets are correct."""
    return [*_identities(assets), *_charts(assets), *_dashboards(assets), *_alerts(assets)]


def _identities(assets: Assets) -> Iterator[str]:
    files = {"datasets": assets.datasets, "charts": assets.charts, "dashboards": assets.dashboards}
    seen = Counter(doc["uuid"] for docs in files.values() for doc in docs.values())
    retired = {uuid for uuids in assets.retired.values() for uuid in uuids}
    for kind, docs in files.items():
        for name, doc in docs.items():
            where = f"{kind}/{name}.yaml"
            if not UUID.fullmatch(doc["uuid"]):
                yield f"{where}: expected a uuid, got {doc['uuid']}"
            if seen[doc["uuid"]] > 1:
                yield f"{where}: expected a uuid of its own, got {doc['uuid']} twice; try a new one"
            if doc["uuid"] in retired:
                yield f"{where}: expected a living uuid, got {doc['uuid']}, which is retired"
    for slug, count in Counter(assets.slugs).items():
        if count > 1:
            yield f"dashboards: expected one {slug}, got {count}"


def _charts(assets: Assets) -> Iterator[str]:
    shown = {chart for doc in assets.dashboards.values() for chart in charts_of(doc)}
    for name, doc in assets.charts.items():
        where = f"charts/{name}.yaml"
        if doc["kind"] not in KINDS:
            yield f"{where}: expected a kind of dashboards/viz.py, got {doc['kind']}; try {', '.join(KINDS)}"
            continue
        if doc["dataset"] not in assets.datasets:
            yield f"{where}: expected a dataset, got {doc['dataset']}; try one of datasets/"
            continue
        if name not in shown:
            yield f"{where}: expected a dashboard that shows it, got none; try retired.yaml"
        dataset = assets.datasets[doc["dataset"]]
        full = chart_params(doc, assets)
        used = {*columns(full), *(condition["subject"] for condition in full["adhoc_filters"])}
        for column in sorted(used - set(dataset["columns"])):
            yield f"{where}: expected a column of {doc['dataset']}, got {column}"
        used_metrics = {*metrics(full), *filter(None, [full.get("timeseries_limit_metric")])}
        for metric in sorted(used_metrics - set(dataset["metrics"])):
            yield f"{where}: expected a metric of {doc['dataset']}, got {metric}"


def _dashboards(assets: Assets) -> Iterator[str]:
    for name, doc in assets.dashboards.items():
        where = f"dashboards/{name}.yaml"
        chart_names = charts_of(doc)
        for chart, count in Counter(chart_names).items():
            if chart not in assets.charts:
                yield f"{where}: expected a chart of charts/, got {chart}"
            if count > 1:
                yield f"{where}: expected {chart} once, got it {count} times"
        for row in doc["rows"]:
            width = sum(row.get("charts", {}).values()) + (WIDTH if "text" in row else 0)
            if width != WIDTH:
                yield f"{where}: expected a row {WIDTH} wide, got {width} with {', '.join(row.get('charts', {}))}"
        for chosen, overrides in doc["filters"].items():
            settings = {**assets.filters.get(chosen, {}), **(overrides or {})}
            if chosen not in assets.filters:
                yield f"{where}: expected a filter of filters.yaml, got {chosen}"
            elif chosen != "nights" and settings["column"] not in assets.datasets[settings["dataset"]]["columns"]:
                yield f"{where}: filter {chosen}: expected a column of {settings['dataset']}, got {settings['column']}"


def _alerts(assets: Assets) -> Iterator[str]:
    for name, doc in assets.alerts.items():
        where = f"alerts/{name}.yaml"
        if doc["dashboard"] not in assets.dashboards:
            yield f"{where}: expected a dashboard of dashboards/, got {doc['dashboard']}"
        if doc["chart"] not in assets.charts:
            yield f"{where}: expected a chart of charts/, got {doc['chart']}"
        elif assets.charts[doc["chart"]].get("params", {}).get("allow_render_html"):
            yield f"{where}: expected a chart without HTML, which a mail would show as it is, got {doc['chart']}"
        if len(doc["crontab"].split()) != 5:
            yield f"{where}: expected a crontab of five fields, got {doc['crontab']!r}; try '0 7 * * *'"
