"""Runs every chart's query inside Superset, without a server: `check_charts.py SLUG...` prints one JSON line per chart.

Each line has `dashboard`, `chart`, `rows`, `seconds`, `error`, and the `sql` that was run.
"""

from __future__ import annotations

import json
import sys
import time

from superset.app import create_app


def run(chart: object) -> dict:
    """One chart's query, past the cache."""
    from superset.charts.schemas import ChartDataQueryContextSchema
    from superset.commands.chart.data.get_data_command import ChartDataCommand

    started = time.monotonic()
    found = {"rows": 0, "error": "", "sql": ""}
    try:
        context = json.loads(chart.query_context) | {"force": True}
        command = ChartDataCommand(ChartDataQueryContextSchema().load(context))
        command.validate()
        for query in command.run()["queries"]:
            found["rows"] += query.get("rowcount") or 0
            found["error"] = found["error"] or query.get("error") or ""
            found["sql"] = query.get("query") or ""
    except Exception as error:  # noqa: BLE001 - whatever Superset raises is what is wrong with the chart
        found["error"] = str(error) or type(error).__name__
    return found | {"seconds": round(time.monotonic() - started, 4)}


def main(slugs: list[str]) -> None:
    """Every chart of every dashboard named, in their order."""
    from flask import g
    from superset import db, security_manager
    from superset.models.dashboard import Dashboard

    g.user = security_manager.find_user(username="admin")
    for slug in slugs:
        dashboard = db.session.query(Dashboard).filter_by(slug=slug).one_or_none()
        if dashboard is None:
            print(json.dumps({"dashboard": slug, "chart": "", "rows": 0, "seconds": 0, "sql": "",
                              "error": "no such dashboard"}), flush=True)  # fmt: skip
            continue
        for chart in sorted(dashboard.slices, key=lambda one: one.slice_name):
            found = {"dashboard": dashboard.dashboard_title, "chart": chart.slice_name} | run(chart)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    with create_app().test_request_context():
        main(sys.argv[1:])
