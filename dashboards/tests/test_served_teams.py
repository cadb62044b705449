"""Teams on a real Superset: what a user of one sees, and a guest in a frame of somebody's page."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opscope.dashboards.tests.browser import CHROMIUM, HOLDER, window
from opscope.dashboards.tests.installation import Installation
from opscope.reports.database.database import open_database
from opscope.reports.database.owners import Rule, store_owners

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
pytest.importorskip("playwright", reason="pip install 'opscope[browser]'")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine: apt-get install chromium", allow_module_level=True)

PAGE = re.search(
    r"```html\n(.*?)```", (Path(__file__).parents[2] / "docs" / "embedding.md").read_text(encoding="utf-8"), re.DOTALL
)
OURS, OTHERS = "lowering", "triage"


@pytest.fixture(scope="module")
def owned(installation: Installation) -> Installation:
    """The nights of which each failure to compile is of one team, and all else of another."""
    with open_database(f"sqlite:///{installation.database}") as connection:
        store_owners(connection, [Rule(OURS, stage="stablehlo-to-ttir"), Rule(OTHERS)])
    installation.run("user", "add", "ann", "--role", "viewer", "--team", OURS, "--password-stdin", stdin="secret\n")
    return installation


def owners(answers: list[Any]) -> set[str]:
    """The teams in the browser's answers to charts."""
    rows = [row for answer in answers for result in answer.json()["result"] for row in result["data"] or []]
    return {row["owner_text"] for row in rows if row.get("owner_text")}


def test_a_user_of_a_team_sees_its_rows_and_the_counts_of_all(owned: Installation, browser: Any) -> None:
    seen: dict[str, tuple[set[str], str]] = {}
    for name, password in (("ann", "secret"), ("admin", owned.password)):
        with window(browser, str(owned.status["url"])) as one:
            assert one.sign_in(name, password)
            answers: list[Any] = []
            one.page.on("response", lambda r, to=answers: to.append(r) if "/chart/data" in r.url else None)
            one.open("opscope-tonight")
            corner = one.page.evaluate("getComputedStyle(document.body, '::after').content")
            assert (f"{OURS} only" in corner) == (name == "ann")
            teams = owners(answers)  # while the page is open, which has the answers
            one.go(f"/night/?owner={OTHERS}")
            seen[name] = teams, one.page.locator("h1").inner_text()
    assert seen == {"ann": ({OURS}, f"Causes of {OURS}"), "admin": ({OURS, OTHERS}, f"Causes of {OTHERS}")}


def test_a_team_that_owns_nothing_is_refused(owned: Installation) -> None:
    says = owned.refused("user", "add", "bob", "--role", "viewer", "--team", "lovering")
    line = f"--team: expected a team that owns something, got 'lovering'; try {OURS}, {OTHERS}\n"
    assert says == f"opscope dashboard user add: {line}"


@pytest.fixture
def host() -> Iterator[tuple[dict[str, str], str]]:
    """A server of somebody's pages: its pages by their paths, and its origin."""
    pages: dict[str, str] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(pages.get(self.path, "").encode())

        def log_message(self, format: str, *words: Any) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield pages, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_page_shows_a_dashboard_to_a_guest_of_a_team(
    owned: Installation, browser: Any, host: tuple[dict[str, str], str]
) -> None:
    assert PAGE is not None
    pages, origin = host
    owned.up("--embed", origin)
    for team in (OURS, ""):
        made = json.loads(owned.run("guest-token", "opscope-tonight", "--json", *(["--team", team] if team else [])))
        pages[f"/{team}"] = PAGE[1].replace("FRAME", made["frame"]).replace("TOKEN", made["token"])
    seen = {}
    for team in (OURS, ""):
        with window(browser, origin) as one:
            answers: list[Any] = []
            one.page.on("response", lambda r, to=answers: to.append(r) if "/chart/data" in r.url else None)
            one.go(f"/{team}")
            frame = one.page.frame_locator("#nights")
            frame.locator(HOLDER).first.wait_for()
            corner = frame.locator("body").evaluate("body => getComputedStyle(body, '::after').content")
            assert (f"{OURS} only" in corner) == (team == OURS), corner
            charts = frame.locator(HOLDER)
            for place in range(charts.count()):
                charts.nth(place).scroll_into_view_if_needed()
                one.page.wait_for_timeout(1000)
            one.page.wait_for_timeout(5000)
            assert one.failed == []
            seen[team] = owners(answers)
    assert seen == {OURS: {OURS}, "": {OURS, OTHERS}}
    owned.up("--embed", "https://elsewhere.example.org")
    with window(browser, origin) as one:
        one.go("/")
        one.page.wait_for_timeout(3000)
        assert one.page.frame_locator("#nights").locator(HOLDER).count() == 0
