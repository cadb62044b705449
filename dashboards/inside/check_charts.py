"""Runs every chart's query inside Superset, without a server, and opens one link of each kind.

`check_charts.py SLUG...` prints one JSON line per chart, per alert and per link.

A chart's query is the one that its dashboard runs when it is opened, with the defaults of the native filters. Each line
has `dashboard`, `chart`, `rows`, `seconds`, `error`, and the `sql` that was run. If the results cannot be read at all,
there is one line instead, with `away`: the driver's reason.
"""

from __future__ import annotations

import html
import json
import sys
import time
import uuid

from superset.app import create_app

ALL_TIMES = "No filter"
"""Time range in a chart's own query if a time filter may narrow it."""


def ask(context: dict) -> list[dict]:
    """Runs a chart's queries in Superset, bypassing the cache, and returns their results."""
    from superset.charts.schemas import ChartDataQueryContextSchema
    from superset.commands.chart.data.get_data_command import ChartDataCommand

    command = ChartDataCommand(ChartDataQueryContextSchema().load(context | {"force": True}))
    command.validate()
    return command.run()["queries"]


def run(chart: object, filters: list[dict]) -> dict:
    """Runs one chart's query."""
    started = time.monotonic()
    result = {"rows": 0, "error": "", "sql": ""}
    try:
        for query in ask(filtered(json.loads(chart.query_context), chart, filters)):
            result["rows"] += query.get("rowcount") or 0
            result["error"] = result["error"] or query.get("error") or ""
            result["sql"] = query.get("query") or ""
    except Exception as error:  # noqa: BLE001 - whatever Superset raises is what is wrong with the chart
        result["error"] = str(error) or type(error).__name__
    return result | {"seconds": round(time.monotonic() - started, 4)}


def filtered(context: dict, chart: object, filters: list[dict]) -> dict:
    """Applies the filters that include the chart to its query; skips conditions on columns that the chart lacks."""
    columns = {column.column_name for column in chart.datasource.columns}
    for filter_ in filters:
        if chart.id in filter_["excluded"]:
            continue
        for query in context["queries"]:
            for condition in query["filters"]:
                if filter_["times"] and condition["op"] == "TEMPORAL_RANGE" and condition["val"] == ALL_TIMES:
                    condition["val"] = filter_["times"]
            query["filters"] += [condition for condition in filter_["conditions"] if condition["col"] in columns]
    return context


def defaults(dashboard: object) -> list[dict]:
    """Each native filter's defaults when the dashboard is opened: `times`, `conditions`, and the charts `excluded`."""
    filters = []
    for native_filter in json.loads(dashboard.json_metadata or "{}").get("native_filter_configuration", []):
        form_data = native_filter.get("defaultDataMask", {}).get("extraFormData", {})
        conditions = list(form_data.get("filters", []))
        if native_filter.get("controlValues", {}).get("defaultToFirstItem"):
            conditions += first_item(native_filter)
        excluded = set(native_filter.get("scope", {}).get("excluded", []))
        filters.append({"times": form_data.get("time_range"), "conditions": conditions, "excluded": excluded})
    return filters


def first_item(native_filter: dict) -> list[dict]:
    """The condition of a filter that defaults to its first item, in the order of its metric."""
    target, metric = native_filter["targets"][0], native_filter.get("sortMetric")
    column = target["column"]["name"]
    query = {"columns": [column], "metrics": [metric] if metric else [], "filters": []}
    row = first_row(target["datasetId"], query | {"orderby": [[metric or column, metric is None]]})
    return [] if row is None else [{"col": column, "op": "IN", "val": [row[column]]}]


def first_row(dataset: int, query: dict) -> dict | None:
    """The first row that a query of a dataset has."""
    asked = {"datasource": {"id": dataset, "type": "table"}, "queries": [query | {"row_limit": 1}]}
    answers = ask(asked | {"result_type": "full", "result_format": "json"})
    return next((row for answer in answers for row in answer.get("data") or []), None)


def links(client: object, slugs: list[str]) -> list[dict]:
    """One line per kind of link: `link` and `leads_to`; `error` says why a page of Superset cannot be opened.

    A log is another server's: the command that started this script asks for it.
    """
    from superset import db
    from superset.connectors.sqla.models import SqlaTable

    lines = []
    for dataset in db.session.query(SqlaTable).order_by(SqlaTable.table_name):
        for column in dataset.columns:
            if "<a href=" not in (column.expression or ""):
                continue
            kind = f"{dataset.table_name}.{column.column_name}"
            try:
                address = example(dataset, column.column_name)
            except Exception as error:  # noqa: BLE001 - what Superset raises; over millions of rows it takes too long
                lines.append({"link": kind, "leads_to": "", "error": str(error) or type(error).__name__})
                continue
            if address:
                lines.append({"link": kind, "leads_to": address, "error": opened(client, address)})
    for slug in slugs:
        address = f"/superset/dashboard/{slug}/"
        lines.append({"link": "another dashboard", "leads_to": address, "error": opened(client, address)})
    return lines


def example(dataset: object, column: str) -> str:
    """The newest address in a column of links; empty if there is none."""
    filters = [{"col": column, "op": "LIKE", "val": "<a%"}]
    query = {"columns": [column, "started"], "metrics": [], "orderby": [["started", False]], "filters": filters}
    row = first_row(dataset.id, query)
    return "" if row is None else html.unescape(str(row[column]).split('"')[1])


def opened(client: object, address: str) -> str:
    """Why Superset's `admin` cannot open a page of Superset; empty if they can, or if the page is another server's."""
    if not address.startswith("/"):
        return ""
    answer = client.get(address)
    if answer.status_code == 200:
        return ""
    return f"HTTP {answer.status_code}" + (f" to {answer.location}" if answer.location else "")


def alerts() -> list[dict]:
    """One line per alert: what its SQL says, and whether Superset would send it, by Superset's own rule."""
    from superset import db
    from superset.commands.report.alert import AlertCommand
    from superset.reports.models import ReportSchedule

    lines = []
    for row in db.session.query(ReportSchedule).filter_by(type="Alert").order_by(ReportSchedule.name):
        line = {"alert": row.name, "on": bool(row.active), "value": None, "sent": False, "error": ""}
        try:
            line["sent"], _ = AlertCommand(row, uuid.uuid4()).run()
            line["value"] = row.last_value
        except Exception as error:  # noqa: BLE001 - whatever Superset raises is what is wrong with the alert
            line["error"] = str(error) or type(error).__name__
        lines.append(line)
    db.session.rollback()  # an alert that is only tried was not looked at
    return lines


def away() -> str:
    """Returns why the results cannot be read; empty if they can."""
    from superset import db
    from superset.connectors.sqla.models import SqlaTable

    dataset = db.session.query(SqlaTable).first()
    if dataset is None:
        return ""
    try:
        with dataset.database.get_raw_connection() as connection:
            connection.cursor().execute("SELECT 1 FROM runs LIMIT 1")
    except Exception as error:  # noqa: BLE001 - whatever the driver raises is the reason
        return str(error) or type(error).__name__
    return ""


def main(slugs: list[str]) -> None:
    """Checks every chart of the dashboards in `slugs`, in order."""
    from flask import g
    from superset import db, security_manager
    from superset.models.dashboard import Dashboard

    g.user = security_manager.find_user(username="admin")
    if reason := away():
        print(json.dumps({"away": reason}), flush=True)
        return
    for slug in slugs:
        dashboard = db.session.query(Dashboard).filter_by(slug=slug).one_or_none()
        if dashboard is None:
            line = {"dashboard": slug, "chart": "", "rows": 0, "seconds": 0, "sql": "", "error": "no such dashboard"}
            print(json.dumps(line), flush=True)
            continue
        filters = defaults(dashboard)
        for chart in sorted(dashboard.slices, key=lambda chart_of_dashboard: chart_of_dashboard.slice_name):
            line = {"dashboard": dashboard.dashboard_title, "chart": chart.slice_name} | run(chart, filters)
            print(json.dumps(line), flush=True)
    for line in alerts():
        print(json.dumps(line), flush=True)
    from flask import current_app

    with current_app.test_client() as client:
        with client.session_transaction() as session:
            session["_user_id"], session["_fresh"] = str(g.user.id), True
        for line in links(client, slugs):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    with create_app().test_request_context():
        main(sys.argv[1:])
