"""The page /night/: night by cause, read from the results database and kept until something else is published."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import commit_pages
import data_version
import due
import grid
import note_form
import query_limits
import teams

PATH = "/night/"
LINKS = (
    ("Start", "opscope-start"),
    ("Tonight", "opscope-tonight"),
    ("Model readiness", "opscope-readiness"),
    ("Nights", "opscope-nights"),
)
"""Titles and slugs of the dashboards that the page leads to."""
ROWS = Path(os.environ["OPSCOPE_NIGHT_GRID"])
"""The folder of the rows' template and style, which report.html has too."""
DATABASE = "opscope results"
"""The results as Superset calls them (bundle.py)."""
WALL_ROWS, WALL_SECONDS = 10, 300
"""Causes on the wall, and after how long that page loads itself anew."""
CLOCK = Path(os.environ.get("OPSCOPE_SERVED", "")).parent / "alert_clock.json"
"""When the process that sends alerts last looked, and what failed then (alert_clock.py)."""
SILENT = timedelta(minutes=15)
"""For how long that process may write nothing."""
CORNER = """
SELECT label || ' ' || zone AS night, demo FROM nights
WHERE kind = 'night' AND night_id NOT IN (SELECT night_id FROM nights_ahead) ORDER BY started DESC, night_id DESC"""
KINDS = ("night", grid.RELEASE)
"""What the page has rows of: nights, or with `?axis=version` releases."""
KEPT = 32
"""Grids, one for each team that is asked for."""


class Nights:
    """The grids of one results database."""

    def __init__(self, uri: str) -> None:
        import sqlalchemy as sa
        from sqlalchemy.pool import NullPool

        url, options = query_limits.limited(sa.engine.make_url(uri), {})
        self._engine = sa.create_engine(url, poolclass=NullPool, **options)
        self._text = sa.text
        self._version = data_version.of_database(uri)
        self._kept: OrderedDict[tuple[str, str, str, str], tuple[Any, Any, list[str] | None]] = OrderedDict()
        self._lock = threading.Lock()
        self._corner = "", "", False

    def corner(self) -> tuple[str, bool]:
        """Date, time and zone of the newest night, and whether any is the demo's; neither if they cannot be read."""
        from sqlalchemy.exc import SQLAlchemyError

        version = self._version()
        if self._corner[0] != version:
            try:
                with self._engine.connect() as connection:
                    rows = connection.execute(self._text(CORNER)).all()
            except SQLAlchemyError:
                return "", False
            self._corner = version, rows[0].night if rows else "", any(row.demo for row in rows)
        return self._corner[1:]

    def grid(self, now: datetime, owner: str, kind: str) -> tuple[Any, Any, list[str] | None]:
        """The grid of now of one team or of all, of nights or releases, and what is asked of the newest night (due.py);
        the teams that rules name, if `owner` is none of them, because an empty page would read as good news.

        Many who ask at once wait for one answer.
        """
        with self._lock:
            key = (self._version(), f"{now:%Y-%m-%d %H}", owner, kind)  # "today" begins at some full hour in most zones
            if key not in self._kept:
                with self._engine.connect() as connection:

                    def ask(query: str, values: Any) -> Any:
                        return connection.execute(self._text(query), dict(values)).all()

                    rows = grid.read(ask, now, commit_pages.page_of_range, owner, kind=kind)
                    there = [team for (team,) in ask(teams.TEAMS, {})] if owner else [owner]
                    self._kept[key] = rows, ask(due.NEWEST, {}), None if owner in there else there
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            rows, newest, others = self._kept[key]
        return rows, due.read(lambda *_: newest, now), others

    def shown(self, now: datetime, owner: str, kind: str, database: str) -> dict[str, Any]:
        """What the page shows of the grid, or why `database` gives none."""
        from sqlalchemy.exc import SQLAlchemyError

        values: dict[str, Any] = {
            "grid": grid.Grid(),
            "problem": "",
            "teams": None,
            "age": "",
            "old": False,
            "late": "",
        }
        try:
            values["grid"], asked, values["teams"] = self.grid(now, owner, kind)
            values["late"] = asked.text if asked and asked.late else ""
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or type(error).__name__)
            values["problem"] = f"{database}: {grid.cut(reason, 200)}"
        if newest := values["grid"].newest:
            values |= {"age": grid.age(newest.started, now), "old": now - newest.started > due.OLD}
        return values


def install(app: Any, served: dict[str, Any], lets_in: Callable[[], bool]) -> None:
    """Adds the page to Superset's application."""
    from flask import redirect, render_template, request
    from flask_login import current_user

    nights = Nights(served["database_uri"])
    app.jinja_env.globals |= {"corner": nights.corner, "team": lambda: teams.of_page(current_user, request)}
    app.jinja_env.filters["css_text"] = css_text
    style = (ROWS / "night_rows.css").read_text(encoding="utf-8")

    def may_write() -> bool:
        return bool(served.get("notes_uri")) and current_user.is_authenticated and _reads()

    def causes() -> set[str]:
        now = datetime.now(timezone.utc)  # noqa: UP017 - Superset's Python may be 3.10
        team = teams.of_user(current_user)
        return {cause.cluster for kind in KINDS for cause in nights.grid(now, team, kind)[0].causes}

    if served.get("notes_uri"):
        note_form.install(app, served["notes_uri"], may_write, causes, PATH)

    @app.route(PATH)
    def night() -> Any:
        if not lets_in():
            return redirect(f"/login/?next={PATH}")
        if not served["anonymous"] and not _reads():
            return {"message": "expected an account that may read the results"}, 403
        now, wall = datetime.now(timezone.utc), "wall" in request.args  # noqa: UP017 - Superset's Python may be 3.10
        team = teams.of_user(current_user)
        owner = team or request.args.get("owner", "")[: note_form.LONGEST]
        kind = grid.RELEASE if request.args.get("axis") == "version" else "night"
        values = nights.shown(now, owner, kind, served["shown_database"])
        page = render_template(
            "night.html",
            wall=wall,
            owner=owner,
            others=bool(owner) and not team,
            style=style.partition("@media")[0] if wall else style,
            alerts_fail=bool(served.get("mail")) and alerts_fail(now),
            links=[(title, f"/superset/dashboard/{slug}/") for title, slug in LINKS],
            logs=f"{served['artifact_url']}/" if served["artifact_url"] else None,
            write=note_form.address(note_form.PATH, request.args) if not wall and may_write() else "",
            most=WALL_ROWS if wall else grid.MOST,
            reload_seconds=WALL_SECONDS,
            **values,
        )
        return page, 503 if values["problem"] else 404 if values["teams"] is not None else 200


def css_text(text: str) -> Any:
    """The text for a string of CSS inside HTML: what is neither a letter nor a digit is written as its number."""
    from markupsafe import Markup

    return Markup("".join(each if each.isalnum() else f"\\{ord(each):06x}" for each in text))


def alerts_fail(now: datetime) -> bool:
    """Whether an alert could not be sent, or what sends them is gone; `opscope dashboard status` says why."""
    try:
        state = json.loads(CLOCK.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False  # its first minute
    return bool(state["failed"]) or now - datetime.fromisoformat(state["at"]) > SILENT


def _reads() -> bool:
    """Whether the user may read the results database, as every dashboard asks too."""
    from superset import db, security_manager
    from superset.models.core import Database

    results = db.session.query(Database).filter_by(database_name=DATABASE).one()
    return bool(security_manager.can_access_database(results))
