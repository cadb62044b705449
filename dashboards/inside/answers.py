"""Whole answers to a browser, kept for as long as neither the results nor Superset's own database changes.

Superset's cache of chart data spares the query alone: finding out who asks, what they may see and which dataset it is
takes 30 ms of processor time for each of the twenty requests that a dashboard makes when it is opened.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import data_version
from event_log import CHART_DATA
from flask import Response, g, request
from flask_login import current_user

READ = re.compile(r"/api/v1/(dashboard/[\w-]+(/charts|/datasets)?|dataset/\d+/drill_info/|database/)")
"""What the page of a dashboard asks for besides the answers of its charts."""
GUEST = "X-GuestToken"
"""Header with the token of a page that has a dashboard in a frame."""
KEPT = 500
"""Answers; a dashboard has some twenty for each set of filters."""
LARGEST = 256 << 10
"""Bytes of an answer that is kept."""
SECONDS = 3600.0
"""For how long: a filter may say "Last month"."""


class Answers:
    """The answers of one server. Users have their own, since they may see different things."""

    def __init__(self, *databases: str) -> None:
        self._versions: list[Callable[[], str]] = [data_version.of_database(uri) for uri in databases]
        self._kept: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self) -> Response | None:
        """The kept answer to the request of now; if there is none, notes the key for `keep`."""
        if GUEST in request.headers:  # a token ends after minutes, and says whose rows its guest may see
            return None
        reads = request.method == "GET" and READ.fullmatch(request.path)
        asks = request.method == "POST" and request.path == CHART_DATA and request.is_json
        if not reads and not (asks and not (request.get_json(silent=True) or {}).get("force")):
            return None
        key = self._key()
        with self._lock:
            kept_at, text = self._kept.get(key, (0.0, ""))
        age = time.monotonic() - kept_at
        if text and age < SECONDS:
            return Response(text, mimetype="application/json", headers={"Age": f"{age:.0f}"})
        g.opscope_answer = key
        return None

    def keep(self, response: Response) -> None:
        """Keeps the answer to a request for which none was found."""
        key = g.pop("opscope_answer", None)
        if key is None or response.status_code != 200 or not response.is_json:
            return
        text = response.get_data(as_text=True)
        if request.path == CHART_DATA:
            text = _as_cached(json.loads(text))
        if not text or len(text) > LARGEST:
            return
        with self._lock:
            self._kept[key] = (time.monotonic(), text)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def _key(self) -> str:
        user = current_user.get_id() if current_user.is_authenticated else None
        narrow = request.cookies.get("opscope_narrow")
        versions = [version() for version in self._versions]
        words = repr((request.method, request.host, request.full_path, user, narrow, versions))
        return hashlib.blake2b(words.encode() + request.get_data(), digest_size=16).hexdigest()


def _as_cached(answer: dict[str, Any]) -> str:
    """A chart's answer that says it is not of now; empty if a query failed, since the next may not."""
    results = answer.get("result", [])
    if not results or any(result.get("error") for result in results):
        return ""
    for result in results:
        result["is_cached"] = True
        result["cached_dttm"] = result.get("cached_dttm") or time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    return json.dumps(answer)
