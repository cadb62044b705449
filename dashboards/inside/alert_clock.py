"""Runs the alerts and reports that are due, each minute, until it is stopped.

Superset's own way is Celery with a worker, a clock and a broker. Its task hands the minute on as text, which SQLite as
Superset's own database refuses; and for a few messages a day this one process does the same with the same commands.
"""

from __future__ import annotations

import logging
import signal
import time
import uuid
from datetime import datetime, timedelta, timezone

from alerts import WORKING_SECONDS
from superset.app import create_app

UTC = timezone.utc  # noqa: UP017 - Superset may run on Python 3.10
MINUTE = timedelta(minutes=1)
LATE = timedelta(minutes=30)
"""Minutes that passed longer ago are left out, such as those for which the machine slept."""
logger = logging.getLogger("opscope.alerts")


class AlertTimeoutError(Exception):
    """A query or a mail server that did not answer in WORKING_SECONDS."""


def stop_waiting(*_: object) -> None:
    """What the timer calls."""
    raise AlertTimeoutError(f"no end after {WORKING_SECONDS} s")


def run_due(minute: datetime) -> None:
    """Runs what is due in `minute`; what goes wrong is in the log, and in Superset's log of the alert."""
    from superset import db
    from superset.commands.report.execute import AsyncExecuteReportScheduleCommand
    from superset.daos.report import ReportScheduleDAO
    from superset.tasks.cron_util import cron_schedule_window

    due = [
        (row.id, row.name)
        for row in ReportScheduleDAO.find_active()
        if any(cron_schedule_window(minute, row.crontab, row.timezone))
    ]
    for number, name in due:
        signal.alarm(WORKING_SECONDS)
        try:
            AsyncExecuteReportScheduleCommand(str(uuid.uuid4()), number, minute.replace(tzinfo=None)).run()
        except Exception as error:
            logger.exception("%s: %s", name, error)
        finally:
            signal.alarm(0)
            db.session.remove()


def main() -> None:
    """Waits for each minute to begin, and catches up on those that passed during a run."""
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
                try:
                    run_due(minute)
                except Exception as error:  # Superset's own database, if it is away: perhaps not for long
                    logger.exception("what is due could not be read: %s", error)
        minute += MINUTE


if __name__ == "__main__":
    main()
