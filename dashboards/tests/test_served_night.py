"""The page of the night on a real Superset, of two series one of which has stopped: who sees it, and what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from opscope.dashboards.tests import night_cells
from opscope.dashboards.tests.browser import CHROMIUM, window
from opscope.dashboards.tests.conftest import served
from opscope.dashboards.tests.crawl import PHONES, WIDTHS, night, window_of
from opscope.dashboards.tests.installation import NASTY, Installation
from opscope.dashboards.tests.test_served_visitors import Server
from opscope.dashboards.tests.whole_words import cut_words
from opscope.harness.record.origin import SOURCE
from opscope.reports.database.database import open_database
from opscope.reports.database.owners import Rule, store_owners
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import record, shard_run
from opscope.reports.tests.nights import Op

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
pytest.importorskip("playwright", reason="pip install 'opscope[browser]'")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine: apt-get install chromium", allow_module_level=True)

OPS = ("add", "exp", "sort", "tanh", "abs", "log", "sine", "cosine", "floor", "ceil", "sign", "rsqrt")
KINDS = ("red", "green", "blue", "white", "black", "brown", "pink", "grey", "violet", "orange")
MODELS = ("a", "b")
REPOSITORY = "https://github.com/ada/compiler"


def ops_of(arch: str, days_ago: int) -> dict[str, Op]:
    """What the ops do on a board, so many days ago."""
    ops = {name: Op(uses={"a": 1}) for name in OPS} | {"neg": Op(uses={"b": 2})}
    if arch == "p150":
        return ops | ({"exp": Op("crashed", {"a": 1}, error="signal SIGSEGV")} if days_ago < 7 else {})
    if days_ago < 6:
        ops["add"] = Op("compile_failed", {"a": 1}, error="add: expected a tile, got none")
    if days_ago < 5:  # a limitation names it since the night before the last
        more = {"expected": "never: no exp"} if days_ago < 2 else {}
        ops["exp"] = Op("compile_failed", {"a": 1}, error="exp: no room for it", more=more)
    if days_ago in (9, 10):
        ops["tanh"] = Op("compile_failed", {"a": 1}, error="tanh: expected a kernel, got none")
    if days_ago == 2:  # a partial night
        del ops["neg"], ops["add"], ops["exp"]
    if not days_ago:
        for name, kind in zip(OPS[2:], KINDS, strict=True):
            ops[name] = Op("compile_failed", {"a": 1}, error=f"{kind}: {NASTY} " + "word " * 60)
        log = {"artifact": "artifacts/0a/it is.txt"}
        ops["neg"] = Op("wrong_result", {"b": 2}, error=f"{NASTY} is wrong", more=log)
    return ops


@pytest.fixture(scope="module")
def installation(pytestconfig: pytest.Config) -> Iterator[Installation]:
    with served(pytestconfig, sixteen_nights) as one:
        yield one


def sixteen_nights(runs: Path, url: str) -> None:
    """n150 ran in each of the last sixteen nights, p150 in six of them until four days ago."""
    with open_database(url) as connection:
        store_owners(connection, [Rule("maths", op="stablehlo.add"), Rule("others")])
    for number, (arch, days_ago) in enumerate(places()):
        publish(run_of(runs, number, arch, days_ago), url)


def places() -> list[tuple[str, int]]:
    """(board, days ago) of each night."""
    return [("n150", ago) for ago in range(15, -1, -1)] + [("p150", ago) for ago in range(9, 3, -1)]


def run_of(runs: Path, number: int, arch: str, days_ago: int, **more: Any) -> Path:
    """The run of a night, with a log."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    started = midnight - timedelta(days=days_ago) + timedelta(**more)
    of_night = record(number, started=started, archs=(arch,), models=MODELS, name=arch)
    origin = {"options": {"dtype": "float32", "seed": 0, SOURCE: {"url": REPOSITORY}}}
    run_dir = shard_run(runs, of_night, number, ops_of(arch, days_ago), arch=arch, started=started, origin=origin)
    log = run_dir / "artifacts" / "0a" / "it is.txt"
    log.parent.mkdir(parents=True)
    log.write_text("what was wrong\n")
    return run_dir


@pytest.mark.parametrize("kind", [*WIDTHS, *PHONES])
def test_its_cells_are_what_the_journals_say(installation: Installation, browser: Any, kind: int | str) -> None:
    with window_of(browser, installation.status["url"], kind) as one:
        one.sign_in("admin", installation.password)
        one.failed.clear()
        assert night(one, installation.folder / "runs") == []
        rows = night_cells.shown(one.page)
        assert night_cells.states(list(rows.values())) == {
            "empty",
            "failing",
            "known",
            "new",
            "no-night",
            "partial unknown",
            "right",
        }
        assert {series for _, series in rows} == {"n150", "p150"}
        # p150 stopped: its failure is of its last night, and its four days since are no night.
        (stopped,) = (row for (_, series), row in rows.items() if series == "p150" and "failing 1" in row)
        assert stopped[-5:] == ["failing 1", *["no-night "] * 4]


def test_what_to_do_and_what_was_fixed(installation: Installation, browser: Any) -> None:
    heard: list[str] = []
    with window(browser, installation.status["url"]) as one:
        one.sign_in("admin", installation.password)
        one.page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
        one.go("/night/")
        causes = one.page.locator(".ng-cause")
        fixed = one.page.locator(".ng-fixed").last
        assert "✓ fixed" in fixed.locator("summary").first.inner_text()
        assert not fixed.locator(".ng-cause").is_visible()
        fixed.locator("summary").first.click()
        assert "tanh" in fixed.locator(".ng-cause").inner_text()
        first = causes.first
        assert "makes whole b" in first.locator(".ng-facts").inner_text()
        assert f"{NASTY} is wrong" in first.locator(".ng-error").inner_text()
        first.get_by_role("button", name="Copy repro").click()
        first.get_by_role("button", name="Copied").wait_for()
        first.get_by_text("Note", exact=True).click()
        assert "Nothing else holds back b." in first.locator(".ng-note").inner_text()
        log = one.page.request.get(first.get_by_role("link", name="Log").get_attribute("href"))
        assert (log.status, log.text()) == (200, "what was wrong\n")
        long = causes.filter(has_text="orange: ").first.locator(".ng-error").inner_text()
        assert long.endswith("word…")
        add = causes.filter(has_text="add: expected a tile").locator(".ng-facts")
        assert "maths" in add.inner_text()
        assert "since " in add.inner_text()
        assert add.get_by_role("link").get_attribute("href").startswith(f"{REPOSITORY}/compare/0909")
        unknown = one.page.request.get(f"{installation.status['url']}/night/?owner=math")
        shown = "<h1>No team math</h1>" in unknown.text() and "Rules name maths, others." in unknown.text()
        assert (unknown.status, shown, "No cause" in unknown.text()) == (404, True, False)
        one.go("/night/?owner=maths")
        assert one.page.locator(".ng-cause").count() == 1
        assert causes.locator("b b, i, script").count() == 0
    assert heard == []


def test_who_sees_it(installation: Installation) -> None:
    server = Server(installation.status["url"])
    for path in ("/night/", "/night/?wall=1"):
        status, headers, _ = server.ask("GET", path)
        assert (status, headers["location"]) == (302, "/login/?next=%2Fnight%2F")
    assert server.ask("GET", "/")[1]["location"] != "/night/"
    try:
        server = Server(installation.up("--anonymous"))
        assert server.ask("GET", "/")[:2][1]["location"] == "/night/"
        status, _, text = server.ask("GET", "/night/")
        assert (status, b'class="ng"' in text) == (200, True)
        assert server.ask("POST", "/night/")[0] in (403, 405)
    finally:
        installation.up()


def test_a_published_night_shows_at_once_and_a_database_that_is_away_is_said(
    installation: Installation, browser: Any
) -> None:
    installation.run("user", "add", "viewer1", "--role", "viewer", "--password-stdin", stdin="a long password\n")
    with installation.taken_back(), window(browser, installation.status["url"]) as one:
        assert one.sign_in("viewer1", "a long password")
        one.go("/night/")
        before = night_cells.shown(one.page)
        run_dir = run_of(installation.folder / "runs", 30, "p150", 0, minutes=1)
        publish(run_dir, f"sqlite:///{installation.database}")
        one.go("/night/")
        after = night_cells.shown(one.page)
        assert after != before
        assert night_cells.cells(one.page, installation.folder / "runs", datetime.now(UTC).date()) == []
        away = installation.database.with_suffix(".away")
        installation.database.rename(away)
        try:
            answer = one.page.goto(f"{one.base}/night/")
            assert (answer.status, "unable to open database file" in answer.text()) == (503, True)
        finally:
            away.rename(installation.database)


def test_a_note_is_written_by_people_with_an_account_alone(installation: Installation, browser: Any) -> None:
    database = f"sqlite:///{installation.database}"
    try:
        base = installation.up("--anonymous", "--notes-db", database)
        with installation.taken_back(), window(browser, base) as one:
            one.page.goto(f"{base}/night/")
            assert one.page.locator(".ng-cause").first.locator("form").count() == 0
            ask = one.page.request.post(f"{base}/night/note", form={"cause": "x", "text": "y"}, max_redirects=0)
            assert (ask.status, ask.headers["location"]) == (302, "/login/?next=%2Fnight%2Fnote")
            assert one.sign_in("admin", installation.password)
            one.go("/night/?axis=time")
            first = one.page.locator(".ng-cause").first
            cause = first.get_attribute("data-cause")
            form = {"cause": cause, "text": "y"}
            assert one.page.request.post(f"{base}/night/note", form=form, max_redirects=0).status != 303, "no token"
            assert installation.ask("SELECT COUNT(*) FROM notes") == 0
            first.locator("summary").click()
            tomorrow = f"{datetime.now(UTC).date() + timedelta(days=1)}"
            first.get_by_label("Note").fill("<b>known</b>, see the board")
            first.get_by_label("No alarm until").fill(tomorrow)
            first.get_by_role("button", name="Write").click()
            one.page.wait_for_url(lambda url: url.endswith(f"/night/?axis=time#cause-{cause[:8]}"))
            said = one.page.locator(f"#cause-{cause[:8]} .ng-remark").inner_text()
            assert said.endswith(f"UTC, until {tomorrow}: <b>known</b>, see the board")
            assert said.startswith("admin, ")
            assert installation.ask("SELECT COUNT(*) FROM notes") == 1
    finally:
        installation.up()


BELOW_ITS_ROW = """() => [...document.querySelectorAll(".ng-cause")].flatMap(row =>
  [...row.querySelectorAll("td, p, span")].filter(each => each.checkVisibility()
    && each.getBoundingClientRect().bottom > row.getBoundingClientRect().bottom + 1
    && getComputedStyle(each.parentElement).overflowY === "visible").map(each => each.innerText))"""
"""What lies over the row below."""


def test_the_wall_begins_with_it(installation: Installation, browser: Any) -> None:
    try:
        base = installation.up("--anonymous", "--wall")
        with window(browser, base) as one:
            for width, height in ((1920, 1080), (1400, 1000), (1280, 800)):
                one.page.set_viewport_size({"width": width, "height": height})
                one.page.goto(f"{base}/wall/")
                one.page.locator("iframe.shown[src*='/night/']").wait_for()
                page = one.page.locator("iframe.shown").content_frame
                page.locator(".ng-cause").nth(9).wait_for()
                assert page.locator(".ng-cause").count() == 10
                assert page.locator("button:visible, summary:visible, .ng-log:visible").count() == 0
                found = page.locator("body").evaluate(f"() => ({night_cells.MEASURE})()")
                assert (found["wide"], found["tall"], found["across"]) == (0, 0, [])
                assert page.locator("body").evaluate(BELOW_ITS_ROW) == []
                assert cut_words(page.locator("body"), night_cells.WORDS) == []
                assert page.locator(".ng-more").bounding_box()["y"] < height
            assert (one.failed, one.errors) == ([], [])
    finally:
        installation.up()
