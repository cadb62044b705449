"""What every request meets, whoever sends it: wrong passwords count, redirects stay here, nonsense is no error."""

from __future__ import annotations

import re
from typing import Any

from logins import LOGINS, WrongLogins, on_this_server

TOO_LARGE = re.compile(r"/\d{19,}(/|$)")
"""A number in a path that no row of a database has: SQLite's end at 2^63."""


def install(app: Any) -> None:
    """Adds them to Superset's application."""
    import prison
    from flask import request
    from flask_login import current_user
    from visitor_queries import readable_range

    wrong = WrongLogins()

    def is_login() -> bool:
        return request.method == "POST" and request.path.rstrip("/") in LOGINS

    def count_wrong_passwords() -> Any:
        wait = wrong.wait(request.remote_addr or "") if is_login() else 0
        message = f"too many wrong passwords from this address; try again in {wait} seconds"
        return ({"message": message}, 429, {"Retry-After": str(wait)}) if wait else None

    def refuse_nonsense() -> Any:
        if TOO_LARGE.search(request.path) or request.path.startswith("/lang/"):  # there is one language
            return {"message": "not found"}, 404
        try:
            if request.is_json:
                request.get_json(silent=True)  # kept for all who read it later
        except RecursionError:
            return {"message": "expected JSON that is not nested without end"}, 400
        if not request.path.startswith("/api/v1/") or request.method != "GET":
            return None
        asked = request.args.get("q", "")
        try:
            value = prison.loads(asked) if asked else None
        except (prison.decoder.ParserException, ValueError, LookupError, RecursionError):
            return {"message": "q: expected Rison"}, 400
        if request.path == "/api/v1/time_range/":
            ranges = [
                each.get("timeRange") if isinstance(each, dict) else each
                for each in (value if isinstance(value, list) else [value])
            ]
            if not all(map(readable_range, ranges)):
                return {"message": "q: expected a range of time, such as 'Last month'"}, 400
        return None

    # Before Superset looks for a token, a session and a user.
    app.before_request_funcs.setdefault(None, [])[:0] = [count_wrong_passwords, refuse_nonsense]

    @app.after_request
    def stay_here(response: Any) -> Any:
        status = response.status_code
        if is_login() and (status == 401 or (status == 302 and not current_user.is_authenticated)):
            wrong.add(request.remote_addr or "")
        if 300 <= status < 400 and response.location:
            response.headers["Location"] = on_this_server(response.location)
        return response
