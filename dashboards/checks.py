"""Checks the assets, because Superset's importer accepts dangling names without an error and charts fail later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from opscope.dashboards.asset_files import WIDTH, Assets
from opscope.dashboards.bundle import chart_params
from opscope.dashboards.viz import columns, metrics

OF_MANY = frozenset(["model", "model_on", "op", "op_id", "op_name", "op_on", "cause", "signature"])
"""Columns with many values, of which a legend would have pages."""
MOST_LINES = 8


def problems(assets: Assets) -> list[str]:
    """Returns one line per problem; empty if the assets are correct."""
    return [*_identities(assets), *_charts(assets), *_dashboards(assets), *_alerts(assets)]


def _identities(assets: Assets) -> Iterator[str]:
    files = {"datasets": assets.datasets, "charts": assets.charts, "dashboards": assets.dashboards}
    seen = Counter(asset.uuid for of_kind in files.values() for asset in of_kind.values())
    retired = {uuid for uuids in assets.retired.values() for uuid in uuids}
    for kind, of_kind in files.items():
        for name, asset in of_kind.items():
            where = f"{kind}/{name}.yaml"
            if seen[asset.uuid] > 1:
                yield f"{where}: expected a uuid of its own, got {asset.uuid} twice; try a new one"
            if asset.uuid in retired:
                yield f"{where}: expected a living uuid, got {asset.uuid}, which is retired"
    for slug, count in Counter(assets.slugs).items():
        if count > 1:
            yield f"dashboards: expected one {slug}, got {count}"


def _charts(assets: Assets) -> Iterator[str]:
    shown = {chart for page in assets.dashboards.values() for chart in page.charts}
    for name, chart in assets.charts.items():
        where = f"charts/{name}.yaml"
        if chart.dataset not in assets.datasets:
            yield f"{where}: expected a dataset, got {chart.dataset}; try one of datasets/"
            continue
        if chart.below and chart.below not in assets.dashboards:
            yield f"{where}: expected a dashboard of dashboards/, got {chart.below}; try {', '.join(assets.dashboards)}"
        elif name not in shown:
            yield f"{where}: expected a dashboard that shows it, got none; try retired.yaml"
        dataset = assets.datasets[chart.dataset]
        full = chart_params(chart, assets)
        used = {*columns(full), *(condition["subject"] for condition in full["adhoc_filters"])}
        for column in sorted(used - set(dataset.columns)):
            yield f"{where}: expected a column of {chart.dataset}, got {column}"
        lines = set(full.get("groupby") or ()) & OF_MANY if chart.kind.startswith("echarts_") else set()
        if lines and not 0 < full.get("limit", 0) <= MOST_LINES:
            yield f"{where}: expected at most {MOST_LINES} lines, got one for each {min(lines)}; try limit"
        used_metrics = {*metrics(full), *filter(None, [full.get("timeseries_limit_metric")])}
        for metric in sorted(used_metrics - set(dataset.metrics)):
            yield f"{where}: expected a metric of {chart.dataset}, got {metric}"


def _dashboards(assets: Assets) -> Iterator[str]:
    for name, page in assets.dashboards.items():
        where = f"dashboards/{name}.yaml"
        for chart, count in Counter(page.charts).items():
            if chart not in assets.charts:
                yield f"{where}: expected a chart of charts/, got {chart}"
            if count > 1:
                yield f"{where}: expected {chart} once, got it {count} times"
        for row in page.rows:
            if (width := sum(row.charts.values())) != WIDTH:
                yield f"{where}: expected a row {WIDTH} wide, got {width} with {', '.join(row.charts)}"
        for chosen in page.filters:
            if (about := assets.filters.get(chosen)) is None:
                yield f"{where}: expected a filter of filters.yaml, got {chosen}"
            elif about.column and about.column not in assets.datasets[about.dataset].columns:
                yield f"{where}: filter {chosen}: expected a column of {about.dataset}, got {about.column}"


def _alerts(assets: Assets) -> Iterator[str]:
    for name, alert in assets.alerts.items():
        where = f"alerts/{name}.yaml"
        if alert.dashboard not in assets.dashboards:
            yield f"{where}: expected a dashboard of dashboards/, got {alert.dashboard}"
        if alert.chart not in assets.charts:
            yield f"{where}: expected a chart of charts/, got {alert.chart}"
        elif assets.charts[alert.chart].params.get("allow_render_html"):
            yield f"{where}: expected a chart without HTML, which a mail would show as it is, got {alert.chart}"
        if len(alert.crontab.split()) != 5:
            yield f"{where}: expected a crontab of five fields, got {alert.crontab!r}; try '0 7 * * *'"
