"""The pages around the dashboards: what `/` shows, the page for a screen on the wall, the layout of a narrow window.

`/` leads to night by cause (night_page.py), and the wall begins with it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import guards
import narrow
import night_page
import visitors

START = night_page.PATH
HOMES = frozenset({"/", "/superset/welcome/"})
"""Where Superset shows an empty home, and where it leads after a login."""
DASHBOARD_API = re.compile(r"/api/v1/dashboard/[\w-]+")
CHARTS_API = re.compile(r"/api/v1/dashboard/[\w-]+/charts")
COLOURS_API = re.compile(r"/api/v1/dashboard/\d+/colors")
WALL_SECONDS, WALL_ZOOM = 20, 1.4
"""How long a dashboard stays on the wall, and how much larger it is than at a desk."""


def _lay_out(response: Any, path: str, wide: frozenset[str]) -> None:
    """The layout of a dashboard for a telephone, without the charts of `wide`, which Superset else adds at its end."""
    answer = response.get_json() if DASHBOARD_API.fullmatch(path) or CHARTS_API.fullmatch(path) else {"result": {}}
    result = answer["result"]
    if CHARTS_API.fullmatch(path):
        answer["result"] = [chart for chart in result if chart["slice_name"] not in wide]
    elif result.get("position_json"):
        result["position_json"] = json.dumps(narrow.narrow(json.loads(result["position_json"]), wide))
    else:
        return
    response.set_data(json.dumps(answer))


def install(app: Any, served: dict[str, Any], answers: Any) -> None:
    """Adds the pages to Superset's application; `answers` has those that need not be made again."""
    import jinja2
    from event_log import BROWSER_EVENTS
    from flask import g, redirect, render_template, request
    from flask_login import current_user

    templates = jinja2.FileSystemLoader([str(Path(__file__).parent / "templates"), str(night_page.ROWS)])
    app.jinja_loader = jinja2.ChoiceLoader([templates, app.jinja_loader])
    app.jinja_env.globals["narrow_below"] = narrow.BELOW
    wide = frozenset(served["wide"])

    def lets_in() -> bool:
        return served["anonymous"] or current_user.is_authenticated

    @app.before_request
    def show_start() -> Any:
        return redirect(START) if request.path in HOMES and lets_in() else None

    @app.before_request
    def take_browser_events() -> Any:
        return "" if request.path == BROWSER_EVENTS else None  # nobody reads them, and a visitor would get a login page

    def leave_colours_alone() -> Any:
        """A page stores the colours that it drew with, also a visitor's, who would get 400 or 401 for it."""
        stores = request.method == "PUT" and COLOURS_API.fullmatch(request.path)
        return {"result": {}} if stores and served["anonymous"] and not current_user.is_authenticated else None

    # Before Superset asks for a token that a visitor's page cannot have.
    app.before_request_funcs.setdefault(None, []).insert(0, leave_colours_alone)

    @app.before_request
    def answer_from_memory() -> Any:
        return answers.find()

    guards.install(app)
    if served["anonymous"]:
        visitors.install(app)  # after the memory: what is in it was answered

    @app.after_request
    def lay_out_and_keep(response: Any) -> Any:
        made = "opscope_answer" in g  # otherwise it is kept as it has been laid out before
        on_telephone = request.method == "GET" and request.cookies.get("opscope_narrow") == "1"
        if made and on_telephone and response.status_code == 200:
            _lay_out(response, request.path, wide)
        answers.keep(response)
        return response

    night_page.install(app, served, lets_in)
    if served.get("wall"):

        @app.route("/wall/")
        def wall() -> Any:
            if not lets_in():
                return redirect("/login/?next=/wall/")
            addresses = [f"{night_page.PATH}?wall=1"]
            addresses += [f"/superset/dashboard/{slug}/?standalone=2&show_filters=0" for slug in served["wall"]]
            return render_template("wall.html", addresses=addresses, seconds=WALL_SECONDS, zoom=WALL_ZOOM)
