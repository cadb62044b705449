"""Runs the alerts and reports that are due, each minute, until it is stopped.

Superset's own way is Celery with a worker, a clock and a broker. Its task hands the minute on as text, which SQLite as
Superset's own database refuses; and for a few messages a day this one process does the same with the same commands.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import time
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

from alerts import WORKING_SECONDS
from superset.app import create_app

HOME = Path(os.environ["OPSCOPE_SERVED"]).parent
STATE = HOME / "alert_clock.json"
"""When the clock last looked, and what failed then: `opscope dashboard status` and /night/ read it."""
UTC = timezone.utc  # noqa: UP017 - Superset may run on Python 3.10
MINUTE = timedelta(minutes=1)
LATE = timedelta(minutes=30)
"""Minutes that passed longer ago are left out, such as those for which the machine slept."""
READING = "what is due"
"""In place of the name of an alert: no alert could be looked at."""
logger = logging.getLogger("opscope.alerts")


class AlertTimeoutError(Exception):
    """A query or a mail server that did not answer in WORKING_SECONDS."""


def stop_waiting(*_: object) -> None:
    """What the timer calls."""
    raise AlertTimeoutError(f"no end after {WORKING_SECONDS} s")


def run_due(minute: datetime, failed: dict[str, str]) -> None:
    """Runs what is due in `minute`; what goes wrong is in the log, in Superset's log of the alert, and in `failed`."""
    import alert_hours
    import night_page
    from superset import db
    from superset.commands.report.execute import AsyncExecuteReportScheduleCommand
    from superset.daos.report import ReportScheduleDAO
    from superset.models.core import Database
    from superset.tasks.cron_util import cron_schedule_window

    results = db.session.query(Database).filter_by(database_name=night_page.DATABASE).one()
    alert_hours.take(results, json.loads((HOME / "alerts.json").read_text(encoding="utf-8"))["alerts"], minute)
    due = [
        (row.id, row.name)
        for row in ReportScheduleDAO.find_active()
        if any(cron_schedule_window(minute, row.crontab, row.timezone))
    ]
    for number, name in due:
        signal.alarm(WORKING_SECONDS)
        try:
            AsyncExecuteReportScheduleCommand(str(uuid.uuid4()), number, minute.replace(tzinfo=None)).run()
            failed.pop(name, None)
        except Exception as error:
            logger.exception("%s: %s", name, error)
            failed[name] = " ".join(str(error).split()) or type(error).__name__
        finally:
            signal.alarm(0)
            db.session.remove()


def remember(now: datetime, failed: dict[str, str]) -> None:
    """Writes when the clock last looked and what does not work, whole or not at all."""
    new = STATE.with_suffix(".new")
    new.write_text(json.dumps({"at": now.isoformat(timespec="seconds"), "failed": failed}), encoding="utf-8")
    new.replace(STATE)


def main() -> None:
    """Waits for each minute to begin, and catches up on those that passed during a run."""
    failed: dict[str, str] = {}
    signal.signal(signal.SIGALRM, stop_waiting)
    app = create_app()
    minute = datetime.now(UTC).replace(second=0, microsecond=0) + MINUTE
    logger.warning("the clock of alerts and reports runs")
    while True:
        now = datetime.now(UTC)
        if minute > now:
            time.sleep((minute - now).total_seconds())
            continue
        if now - minute < LATE:
            with app.app_context():
                failed.pop(READING, None)
                try:
                    run_due(minute, failed)
                except Exception as error:  # Superset's own database or the results, if away: perhaps not for long
                    logger.exception("what is due could not be read: %s", error)
                    failed[READING] = " ".join(str(error).split()) or type(error).__name__
            remember(now, failed)
        minute += MINUTE


if __name__ == "__main__":
    main()
