"""Writes the alerts and reports of the bundle to Superset's database. Without recipients they are inactive."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

WORKING_SECONDS = 300
"""After this time a query or a mail server that hangs is given up."""


def make_alerts(docs: list[dict[str, Any]], database: Any, base: str) -> int:
    """Creates or updates each alert and report by its name; returns how many are active."""
    import alert_hours
    from superset import db
    from superset.models.slice import Slice
    from superset.reports.models import ReportRecipients, ReportSchedule

    charts = {str(chart.uuid): chart for chart in db.session.query(Slice).all()}
    for doc in docs:
        kind = "Alert" if doc["sql"] else "Report"
        row = db.session.query(ReportSchedule).filter_by(type=kind, name=doc["name"]).first()
        if row is None:
            row = ReportSchedule(type=kind, name=doc["name"])
            db.session.add(row)
        row.description = f'{doc["text"]} <a href="{base}{doc["path"]}">{doc["dashboard"]}</a>'
        row.active, row.crontab = bool(doc["to"]), doc["crontab"]
        row.chart, row.report_format = charts[doc["chart"]], "TEXT"  # a table in the mail: a picture needs a browser
        row.working_timeout = WORKING_SECONDS
        if doc["sql"]:
            row.database, row.sql, row.grace_period = database, doc["sql"], doc["quiet_seconds"]
            row.validator_type = "operator"
            row.validator_config_json = json.dumps({"op": ">", "threshold": doc["above"]})
        target = json.dumps({"target": ",".join(doc["to"])})
        row.recipients = [ReportRecipients(type="Email", recipient_config_json=target)] if doc["to"] else []
    alert_hours.take(database, docs, datetime.now(timezone.utc))  # noqa: UP017 - Superset may run on Python 3.10
    return sum(bool(doc["to"]) for doc in docs)
