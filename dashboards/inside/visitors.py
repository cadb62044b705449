"""What a visitor without an account may ask the server for, where `up --anonymous` lets them in: nothing but this."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlencode

import visitor_queries
from event_log import CHART_DATA
from visitor_queries import RefusedError, Sendable

READ = re.compile(
    r"/superset/dashboard/(p/)?[\w-]+/?|/api/v1/dashboard/[a-zA-Z0-9][\w-]*(/charts|/datasets|/filter_state/[\w-]+)?"
    r"|/api/v1/time_range/|/(static|lang)/.*|/(login|logout|wall|night)/?|/embedded/[\w-]+|/(health|healthcheck|ping|favicon\.ico)"
)
"""What a page of a dashboard reads, besides what is answered before anybody is asked who they are."""
WRITTEN = frozenset({CHART_DATA, "/login", "/login/", "/api/v1/security/login", "/api/v1/security/refresh"})
PUBLIC = "Public"
"""Superset's role of visitors; the dashboards that list it are open."""


def install(app: Any) -> None:
    """Refuses all other requests of visitors, before Superset looks at them."""
    from flask import redirect, request
    from flask_jwt_extended import verify_jwt_in_request
    from flask_login import current_user

    @app.before_request
    def keep_to_the_dashboards() -> Any:
        if current_user.is_authenticated or request.endpoint is None:  # no such page: not found
            return None
        known = READ.fullmatch(request.path) if request.method in ("GET", "HEAD") else request.path in WRITTEN
        if known:
            return _chart_data() if request.path == CHART_DATA else None
        if "Authorization" in request.headers:
            verify_jwt_in_request()  # a program with an account, which Superset knows only once it needs to
            return None
        if request.path.startswith("/api/") or request.method not in ("GET", "HEAD"):
            return _refused("expected a request of a dashboard's page; sign in for all others")
        return redirect("/login/?" + urlencode({"next": request.full_path.rstrip("?")}))


def _chart_data() -> Any:
    """Puts the request that a visitor may send in the place of the one that was sent, or refuses it."""
    from flask import request

    try:
        if not request.is_json or len(request.get_data()) > visitor_queries.LARGEST:
            raise RefusedError(f"expected JSON of at most {visitor_queries.LARGEST} bytes")
        body = request.get_json(silent=True)
        form = body.get("form_data") if isinstance(body, dict) else None
        if not isinstance(form, dict):
            raise RefusedError("expected the form_data of a chart or filter")
        sent, form_data = _stored(form)
        made = visitor_queries.request(body, sent, form_data)
    except RefusedError as refused:
        return _refused(str(refused))
    body.clear()
    body.update(made)  # Superset reads the same object
    return None


def _stored(form: dict[str, Any]) -> tuple[Sendable, dict[str, Any]]:
    """What the chart or filter that a request names sends, and its form_data. Raises RefusedError if it is not open."""
    from superset.models.dashboard import Dashboard

    dashboard = _by_id(Dashboard, form.get("dashboardId"))
    if dashboard is None or not dashboard.published or all(role.name != PUBLIC for role in dashboard.roles):
        raise RefusedError("expected the number of an open dashboard as dashboardId")
    if form.get("type") == "NATIVE_FILTER":
        return _filter(dashboard, form.get("native_filter_id"))
    number = form.get("slice_id")
    chart = next((one for one in dashboard.slices if type(number) is int and one.id == number), None)
    if chart is None or chart.datasource is None:
        raise RefusedError("expected the number of one of the dashboard's charts as slice_id")
    params = json.loads(chart.params)
    form_data = {**params, "slice_id": chart.id, "dashboardId": dashboard.id}
    return visitor_queries.chart(params, chart.datasource_id, _columns(chart.datasource)), form_data


def _filter(dashboard: Any, name: Any) -> tuple[Sendable, dict[str, Any]]:
    from superset.connectors.sqla.models import SqlaTable

    stored = json.loads(dashboard.json_metadata or "{}").get("native_filter_configuration") or []
    one = next((each for each in stored if each.get("id") == name), {})
    target = next((each for each in one.get("targets") or [] if each.get("column")), None)
    dataset = _by_id(SqlaTable, target.get("datasetId")) if target else None
    if target is None or dataset is None:
        raise RefusedError("expected the name of one of the dashboard's filters as native_filter_id")
    sent = visitor_queries.filter_values(target["column"]["name"], one.get("sortMetric"), dataset.id, _columns(dataset))
    return sent, {"type": "NATIVE_FILTER", "native_filter_id": name, "dashboardId": dashboard.id}


def _by_id(model: Any, number: Any) -> Any:
    from superset import db

    return db.session.get(model, number) if type(number) is int and 0 < number < 1 << 63 else None


def _columns(dataset: Any) -> frozenset[str]:
    return frozenset(column.column_name for column in dataset.columns)


def _refused(why: str) -> tuple[dict[str, str], int]:
    return {"message": why}, 403
