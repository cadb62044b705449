"""Superset's alerts and reports: whom they are sent to, and what Superset's own database has to hold about each."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from opscope.dashboards.asset_files import Assets
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home, Served
from opscope.dashboards.layout import address

PASSWORD_VARIABLE = "OPSCOPE_MAIL_PASSWORD"
"""The password for the mail server: no option has it, since everybody on a machine can read command lines."""
PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
"""How a mail server is reached -> its usual port: STARTTLS, TLS from the first byte, no encryption."""
STATE = "alert_clock.json"
"""File in the home folder, which inside/alert_clock.py writes each minute."""
SILENT = timedelta(minutes=15)
"""For how long that process may write nothing: a mail server that hangs is given up after five minutes."""
MAIL_ADDRESS = re.compile(r"[^\s@,;<>]+@[^\s@,;<>]+")


@dataclass(frozen=True)
class Mail:
    """Whom alerts and reports are sent to, and by which mail server; superset_config.py reads it."""

    to: list[str] = field(default_factory=list)
    """Empty: alerts and reports are off."""
    host: str = ""
    port: int = 0
    scheme: str = ""
    user: str = ""
    password: str = ""
    sender: str = ""


def read_mail(to: Sequence[str], server: str | None) -> Mail:
    """Reads `--alerts-to` and `--mail-server`. Raises DashboardError if they are no addresses, or one is missing."""
    recipients = [part.strip() for text in to for part in text.split(",") if part.strip()]
    for recipient in recipients:
        if not MAIL_ADDRESS.fullmatch(recipient):
            raise DashboardError("--alerts-to", "a mail address", repr(recipient), "team@example.org")
    example = "smtp://mail.example.org"
    if bool(recipients) != bool(server):
        if recipients:
            raise DashboardError("--mail-server", "one, since --alerts-to is given", "none", example)
        raise DashboardError("--alerts-to", "one, since --mail-server is given", "none", "team@example.org")
    if not server:
        return Mail()
    parts = urlsplit(server)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in PORTS or not parts.hostname or port == 0 or parts.path.strip("/") or parts.query:
        got = repr(server if parts.password is None else "an address with a password")
        raise DashboardError("--mail-server", f"an address with {'://, '.join(PORTS)}://", got, example)
    if parts.password is not None:
        raise DashboardError("--mail-server", "no password in it", "one", PASSWORD_VARIABLE)
    user = unquote(parts.username or "")
    sender = user if MAIL_ADDRESS.fullmatch(user) else recipients[0]
    password = os.environ.get(PASSWORD_VARIABLE, "")
    return Mail(recipients, parts.hostname, port or PORTS[parts.scheme], parts.scheme, user, password, sender)


def schedules(assets: Assets, served: Served) -> list[dict[str, Any]]:
    """What inside/alerts.py writes to Superset's database: one map for each file of assets/alerts/."""
    return [
        {
            "name": alert.name,
            "text": alert.text.strip(),
            "dashboard": assets.dashboards[alert.dashboard].title,
            "path": address(assets.dashboards[alert.dashboard].slug),
            "chart": assets.charts[alert.chart].uuid,
            "crontab": alert.crontab,
            "sql": alert.sql,
            "above": alert.above,
            "quiet_seconds": int(alert.quiet_hours * 3600),
            "to": served.mail.get("to", []),
        }
        for alert in assets.alerts.values()
    ]


def problems(home: Home, served: Served, running: Collection[str], now: datetime) -> list[str]:
    """Why alerts and reports do not reach anybody, one line each; empty if they do, or are off."""
    if not served.mail:
        return []
    state = home.read(STATE)
    lines = [f"{name}: {reason}" for name, reason in state.get("failed", {}).items()]
    if "alerts" not in running:
        return [f"the process that sends them does not run, see {home.folder / 'alerts.log'}", *lines]
    if state and now - datetime.fromisoformat(state["at"]) > SILENT:
        lines.insert(0, f"the process that sends them has not looked since {state['at']}")
    return lines


def as_served(mail: Mail) -> dict[str, Any]:
    """The mail as a map for `Served`; empty where alerts are off."""
    return asdict(mail) if mail.to else {}
