"""Superset's log of what people do, without what they read.

Superset writes three rows for each chart that anybody opens, and commits each: a third of the time that the server
takes for a dashboard, in a table that nothing ever empties.
"""

from __future__ import annotations

import re
from typing import Any

from flask import has_request_context, request
from superset.utils.log import DBEventLogger

CHART_DATA = "/api/v1/chart/data"
BROWSER_EVENTS = "/superset/log/"
"""Where the browser reports what it drew, and how long that took."""
FILTER_STATE = re.compile(r"/api/v1/dashboard/\d+/filter_state(/[\w-]+)?")
"""Where the browser leaves what the filters are set to; it does so whenever a dashboard is opened."""


class EventLog(DBEventLogger):
    """Keeps what changes something, such as a chart that is saved or a query of SQL Lab."""

    def log_with_context(self, action: str, *args: Any, **kwargs: Any) -> None:
        """Writes one event, unless somebody only reads."""
        if not (has_request_context() and _reads()):
            super().log_with_context(action, *args, **kwargs)


def _reads() -> bool:
    paths = (CHART_DATA, BROWSER_EVENTS)
    return request.method == "GET" or request.path in paths or bool(FILTER_STATE.fullmatch(request.path))
