"""A real Superset over a real database, opened in a real browser: what a team sees in the morning.

Needs Chromium and the extra `browser`. Pictures are kept in the folder that OPSCOPE_PICTURES names.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from opscope.dashboards.tests.assets import ASSETS
from opscope.dashboards.tests.browser import BUSY_CHARTS, CHROMIUM, HOLDER, Window, window
from opscope.dashboards.tests.crawl import IN_SIGHT, PHONES, crawl
from opscope.dashboards.tests.installation import NASTY, Installation, demo_night
from opscope.reports.publish.publish import publish
from opscope.reports.records.night_record import join
from opscope.reports.tests import every_kind
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
pytest.importorskip("playwright", reason="pip install 'opscope[browser]'")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine: apt-get install chromium", allow_module_level=True)

SLUGS = {name: page.slug for name, page in ASSETS.dashboards.items()}


@contextmanager
def signed_in(browser: Any, base: str, name: str, password: str) -> Iterator[Window]:
    """A window of a user."""
    with window(browser, base) as one:
        assert one.sign_in(name, password)
        one.failed.clear()
        yield one


@pytest.fixture(scope="module")
def admin(installation: Installation, browser: Any) -> Iterator[Window]:
    with signed_in(browser, installation.status["url"], "admin", installation.password) as one:
        yield one


@pytest.fixture(autouse=True)
def forget(admin: Window) -> None:
    """Each test starts with nothing remembered."""
    for noted in (admin.failed, admin.outside, admin.errors):
        noted.clear()
    admin.page.set_viewport_size({"width": 1600, "height": 1100})


def sound(one: Window) -> None:
    """No chart complains, no request failed or left this machine, no script broke."""
    assert (one.alerts(), one.failed, one.outside, one.errors) == ([], [], [], [])


def number(one: Window, chart: str) -> float:
    """The big number of a chart, `-2.55%` as -0.0255."""
    text = one.chart(chart).locator(".header-line").inner_text().strip()
    digits = text.replace("−", "-").replace(",", "").removesuffix("%")
    return float(digits) / (100 if text.endswith("%") else 1)


@pytest.mark.parametrize("name", SLUGS)
def test_every_chart_is_drawn(admin: Window, name: str, tmp_path: Path) -> None:
    query = link_to_op(admin) if name == "op_explorer" else ""
    assert admin.open(SLUGS[name], query) == len(ASSETS.dashboards[name].charts)
    for chart in ASSETS.dashboards[name].charts:
        assert admin.page.get_by_text(ASSETS.charts[chart].name, exact=True).count()
    sound(admin)
    admin.shoot(Path(os.environ.get("OPSCOPE_PICTURES", tmp_path)) / f"{name}.png")
    sound(admin)


def link_to_op(one: Window) -> str:
    """The query of the first link that leads from tonight's failing ops to the op explorer."""
    one.open(SLUGS["tonight"])
    link = one.chart("Failing ops").locator("a[href*=native_filters]").first.get_attribute("href")
    return "?" + str(link).partition("?")[2]


FAILING = "SELECT COUNT(DISTINCT op_id) FROM dashboard_ops WHERE tonight = 1 AND supported = 'no' AND flaky = ''"


def test_a_filter_makes_the_numbers_what_sql_says(admin: Window, installation: Installation) -> None:
    admin.open(SLUGS["tonight"])
    before = number(admin, "Failing")
    assert before == installation.ask(FAILING)
    admin.choose("model", "resnet50")
    assert number(admin, "Failing") == installation.ask(f"{FAILING} AND model = 'resnet50'") != before
    new = (
        "SELECT COUNT(DISTINCT op_id) FROM dashboard_changes "
        "WHERE tonight = 1 AND model = 'resnet50' AND change = 'NEW'"
    )
    assert number(admin, "New failures") == installation.ask(new)
    moved = (
        "SELECT MIN(1.0 * (right_now - right_before) / both_ops) FROM dashboard_pairs "
        "WHERE tonight = 1 AND model = 'resnet50'"
    )
    assert number(admin, "Change, like for like") == pytest.approx(installation.ask(moved), abs=5e-5)
    sound(admin)


def test_a_click_on_a_bar_filters_the_others(admin: Window, installation: Installation) -> None:
    admin.open(SLUGS["readiness"])
    cell = admin.chart("Readiness of each model").locator("td", has_text="gpt2_small").first
    cell.click()
    admin.settle()
    texts = admin.chart("What holds each model back").locator("tbody tr td:first-child").all_inner_texts()
    assert set(texts) == {"gpt2_small"}
    assert installation.ask("SELECT COUNT(DISTINCT model) FROM dashboard_ops WHERE supported = 'no'") > 1
    sound(admin)


def test_a_failing_row_leads_to_its_log(admin: Window) -> None:
    admin.open(SLUGS["tonight"])
    row = admin.chart("Failing ops").locator("tbody tr", has=admin.page.get_by_role("link", name="log")).first
    op_id = row.locator("a").first.inner_text().split()[-1]
    with admin.page.context.expect_page() as opened:
        row.get_by_role("link", name="log").click()
    log = opened.value
    log.wait_for_load_state()
    assert re.search(r"/demo-\d+-[\w-]+/artifacts/[0-9a-f]{16}/[\w-]+\.txt$", log.url)
    text = log.inner_text("body")
    assert text.startswith("demo data: nothing was run")
    assert f"[{op_id}]" in text
    log.close()


def test_an_op_leads_to_its_history(admin: Window, installation: Installation) -> None:
    admin.open(SLUGS["tonight"])
    link = admin.chart("Failing ops").locator("tbody tr", has_text="stablehlo").locator("a[href*=native_filters]").first
    name = link.inner_text().replace("\n", " ")
    admin.page.goto(f"{admin.base}{link.get_attribute('href')}")
    admin.page.wait_for_selector(".dashboard-component-chart-holder")
    admin.settle()
    rows = admin.chart("The op").locator("tbody tr").all_inner_texts()
    assert rows
    assert all(name.split()[-1] in row for row in rows)
    times = installation.ask(f"SELECT COUNT(*) FROM dashboard_history WHERE op = '{name}'")
    assert admin.chart("Night by night").locator("tbody tr").count() == min(times, 10)
    sound(admin)


def test_markup_in_names_and_errors_is_text(admin: Window) -> None:
    heard: list[str] = []
    admin.page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
    admin.open(SLUGS["readiness"])
    table = admin.chart("What holds each model back")
    table.locator("input[placeholder*=records]").fill("DROP TABLE")
    table.get_by_text(NASTY, exact=True).first.wait_for()
    assert table.get_by_text(NASTY, exact=True).count()
    assert table.get_by_text(f"{NASTY} <i>is</i> not taken").count()
    assert table.locator("td b, td i, [onclick]").count() == 0
    sound(admin)
    assert heard == []


def test_a_list_of_pages_is_searched_for_the_beginning_of_a_name(admin: Window, installation: Installation) -> None:
    admin.open(SLUGS["performance"])
    table = admin.chart("Slowest to compile")
    table.locator("input[placeholder*=records]").fill("stablehlo.dot")
    table.locator("tbody tr td:first-child", has_text="stablehlo.dot_general").first.wait_for()
    admin.settle()
    names = table.locator("tbody tr td:first-child").all_inner_texts()
    assert {name.split()[0] for name in names} == {"stablehlo.dot_general"}
    assert installation.ask("SELECT COUNT(DISTINCT op_name) FROM dashboard_ops WHERE compile_seconds > 0") > 1
    sound(admin)


def test_a_wrong_password_lets_nobody_in(installation: Installation, browser: Any) -> None:
    with window(browser, installation.status["url"]) as one:
        assert not one.sign_in("admin", "wrong")
        assert not one.sign_in("admin' OR '1'='1", "x' OR '1'='1")
        one.page.goto(f"{one.base}/superset/dashboard/{SLUGS['tonight']}/")
        assert "/login" in one.page.url or one.page.locator(".dashboard-component-chart-holder").count() == 0


def test_check_runs_every_chart(installation: Installation) -> None:
    rows = json.loads(installation.run("check", "--json"))
    assert [row for row in rows if row["error"]] == []
    assert {row["chart"] for row in rows if "chart" in row} == {chart.name for chart in ASSETS.charts.values()}
    links = {row["link"] for row in rows if "link" in row}
    assert {"dashboard_ops.op_link", "dashboard_ops.log", "another dashboard"} <= links


def test_without_the_database_the_server_stays(admin: Window, installation: Installation) -> None:
    away = installation.database.with_suffix(".away")
    installation.database.rename(away)
    try:
        for words in ((), ("--json",)):
            expected = installation.refused("check", *words)
            assert expected.startswith(
                f"opscope dashboard check: expected to read sqlite:///{installation.database}, got "
            )
            assert "unable to open database file; try opscope dashboard up --db URL" in expected
            assert expected.count("\n") == 1
        assert admin.open(SLUGS["performance"]) == len(ASSETS.dashboards["performance"].charts)
        assert len(admin.alerts()) == len(ASSETS.dashboards["performance"].charts)
        # 500 for a dataset with a template: Superset opens the database for it before it catches errors.
        assert [error for error in admin.errors if not re.search("a status of (400|500)", error)] == []
        assert answers(installation.status["url"], "/health") == 200
    finally:
        away.rename(installation.database)
        admin.failed.clear()
        admin.errors.clear()
    admin.open(SLUGS["tonight"])
    sound(admin)


def test_the_server_of_another_opscope_is_replaced(installation: Installation) -> None:
    for code, again in (("of an older opscope", True), (None, False)):
        served = installation.folder / "home" / "served.json"
        if code:
            served.write_text(json.dumps(json.loads(served.read_text()) | {"code": code}))
        before = processes(installation)
        installation.up()
        assert (processes(installation) != before) == again
    assert answers(installation.status["url"], "/health") == 200


def test_answers_are_kept_until_something_is_published(admin: Window, installation: Installation) -> None:
    kept: list[bool] = []
    admin.page.on(
        "response", lambda r: kept.append(bool(r.json()["result"][0]["is_cached"])) if DATA in r.url else None
    )
    admin.open(SLUGS["start"])
    kept.clear()
    admin.open(SLUGS["start"])
    assert kept == [True] * len(ASSETS.dashboards["start"].charts)
    before = number(admin, "New failures")
    ops = {"cosine": Op("compile_failed", {"mnist_mlp": 1}, error="no longer taken")}
    newest = datetime.fromisoformat(str(installation.ask("SELECT MAX(started) FROM nights"))).replace(tzinfo=UTC)
    for hours, changed in ((1, {"cosine": Op("success", {"mnist_mlp": 1})}), (2, ops)):  # on the same date
        started = newest + timedelta(hours=hours)
        run_dir = night(installation.folder / "runs", 30 + hours, changed, started=started, arch="n300")
        join(run_dir, demo_night(started, "n300", "mnist_mlp"), 0)
        publish(run_dir, f"sqlite:///{installation.database}")
    admin.open(SLUGS["start"])
    assert number(admin, "New failures") == before + 1
    sound(admin)


def test_an_answer_in_memory_ends_when_superset_changes(admin: Window, installation: Installation) -> None:
    address = f"{admin.base}/api/v1/dashboard/{SLUGS['tonight']}"
    for _ in range(4):  # at first, a browser stores which colours it drew: that changes the dashboard
        first = admin.page.request.get(address)
        admin.open(SLUGS["tonight"])  # stores what its filters are set to, which changes nothing
        again = admin.page.request.get(address)
        if "age" in again.headers:
            break
    assert "age" in again.headers  # an answer from memory
    assert again.json() == first.json()
    retitle = "UPDATE dashboards SET dashboard_title = ? WHERE slug = ?"
    for title in ("Renamed", ASSETS.dashboards["tonight"].title):
        with closing(sqlite3.connect(installation.folder / "home" / "superset.sqlite")) as connection, connection:
            connection.execute(retitle, (title, SLUGS["tonight"]))
        made = admin.page.request.get(address)
        assert "age" not in made.headers
        assert made.json()["result"]["dashboard_title"] == title


DATA = "/api/v1/chart/data"


@pytest.mark.parametrize("scrolls", [False, True], ids=["in time", "scrolled to"])
def test_charts_below_the_window_follow_the_first_screen(admin: Window, scrolls: bool) -> None:
    person, asked = admin.of_a_person(), []
    person.set_viewport_size({"width": 1280, "height": 800})
    person.on("request", lambda r: asked.append(r.url) if f"{DATA}?" in r.url else None)  # filters' have no query
    person.goto(f"{admin.base}/superset/dashboard/{SLUGS['tonight']}/", wait_until="commit")
    person.wait_for_function(IN_SIGHT, arg=BUSY_CHARTS, polling=100)
    first = len(set(asked))
    assert 0 < first < len(ASSETS.dashboards["tonight"].charts)
    if scrolls:
        person.locator(HOLDER).last.scroll_into_view_if_needed()
    with person.expect_request(lambda r: f"{DATA}?" in r.url and r.url not in asked[:first]):
        pass
    if scrolls:
        person.locator(f"{HOLDER} [data-test-chart-name='Failing ops'] tbody tr").first.wait_for()
    person.close()


CLOSED = (
    "/superset/sqllab/",
    "/sqllab/",
    "/explore/",
    "/users/list/",
    "/api/v1/database/",
    "/api/v1/dataset/",
    "/api/v1/chart/1",
    "/api/v1/dashboard/export/?q=!(1)",
    "/api/v1/query/",
    "/api/v1/saved_query/",
    "/api/v1/security/csrf_token/",
    "/api/v1/log/",
    "/api/v1/assets/export/",
)


def test_visitors_see_the_dashboards_if_allowed_and_nothing_else(installation: Installation, browser: Any) -> None:
    base = installation.status["url"]
    assert answers(base, f"/api/v1/dashboard/{SLUGS['tonight']}") in (401, 403, 404)
    try:
        base = installation.up("--anonymous")
        with window(browser, base) as one:
            assert one.open(SLUGS["tonight"]) == len(ASSETS.dashboards["tonight"].charts)
            assert one.alerts() == []
            assert number(one, "Failing") == installation.ask(FAILING)
            cause = one.chart("What changed tonight, by cause").locator("tbody tr").first.locator("td").nth(1)
            short = cause.inner_text()
            expected = installation.ask(
                f"SELECT COUNT(DISTINCT op_id) FROM dashboard_changes WHERE tonight = 1 AND cause = '{short}'"
            )
            assert (len(short), expected > 0) == (8, True)
            cause.click()
            one.settle()
            ops = one.chart("What changed tonight, op by op").locator("tbody tr")
            assert ops.count() == min(expected, 10)
            one.open(SLUGS["tonight"])
            one.choose("model", "resnet50")
            assert number(one, "Failing") == installation.ask(f"{FAILING} AND model = 'resnet50'")
            assert (one.alerts(), one.failed, one.errors) == ([], [], [])
        assert {place: code for place in CLOSED if (code := answers(base, place)) == 200} == {}
    finally:
        base = installation.up()
    assert answers(base, f"/api/v1/dashboard/{SLUGS['tonight']}") in (401, 403, 404)


def test_the_wall_shows_one_drawn_dashboard_after_another(installation: Installation, browser: Any) -> None:
    try:
        base = installation.up("--anonymous", "--wall")
        with window(browser, base) as one:
            one.page.set_viewport_size({"width": 1920, "height": 1080})
            one.page.goto(f"{base}/wall/")
            shown = one.page.locator("iframe.shown")
            for name in ASSETS.wall[:2]:
                one.page.locator(f"iframe.shown[src*='{name}']").wait_for()
                page = shown.content_frame
                page.locator(f"{HOLDER} [data-test-chart-name]").first.wait_for()
                assert page.locator("[data-test=filter-bar], [data-test=dashboard-filters-panel]").count() == 0
                assert shown.evaluate("frame => getComputedStyle(frame).zoom") == "1.4"
            assert page.locator(BUSY_CHARTS).count() < page.locator(HOLDER).count()  # drawn before it is shown
            assert (one.failed, one.errors) == ([], [])
    finally:
        installation.up()


def processes(installation: Installation) -> Any:
    """The server's process."""
    return json.loads((installation.folder / "home" / "processes.json").read_text())["superset"]


def answers(base: str, path: str) -> int:
    """The status of one request without an account; a way to the login page is not followed."""
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@pytest.mark.parametrize("kind", [1280, 1920, *PHONES])
def test_every_link_leads_somewhere(installation: Installation, browser: Any, kind: int | str) -> None:
    """From two dashboards; `make measure` crawls all of them, at 390 pixels too."""
    base, names = installation.status["url"], ["start", "tonight"]
    result = crawl(browser, base, installation.password, users=["admin"], kinds=[kind], names=names)
    assert result.wrong == []
    assert (result.opened, result.followed) == (2, 2)


def test_nights_of_every_kind_on_telephones(installation: Installation, browser: Any) -> None:
    """Two boards, three compilers for the host, one of which has stopped: long names, many series, a partial night."""
    folder = installation.folder / "every_kind"
    url = fresh(installation.folder / "every_kind.sqlite")
    every_kind.fill(folder, url)
    try:
        base = installation.up("--db", url, "--runs", str(folder), "--anonymous")
        result = crawl(browser, base, installation.password, users=["anonymous"], kinds=PHONES)
        assert result.wrong == []
        assert (result.opened, result.followed) == (2 * len(SLUGS), 4)
    finally:
        installation.up()


def test_a_visitor_may_follow_every_link(installation: Installation, browser: Any) -> None:
    try:
        base = installation.up("--anonymous")
        result = crawl(browser, base, installation.password, users=["anonymous"], kinds=[1280])
        assert result.wrong == []
        assert (result.opened, result.followed) == (len(SLUGS), 2)
    finally:
        installation.up()


@pytest.mark.parametrize(("role", "lab"), [("viewer", False), ("editor", True)])
def test_people_see_what_their_role_may(installation: Installation, browser: Any, role: str, lab: bool) -> None:
    installation.run("user", "add", f"{role}1", "--role", role, "--password-stdin", stdin="a long password\n")
    with signed_in(browser, installation.status["url"], f"{role}1", "a long password") as one:
        assert one.open(SLUGS["performance"]) == len(ASSETS.dashboards["performance"].charts)
        assert one.alerts() == []
        answer = one.page.request.get(f"{one.base}/api/v1/saved_query/?q=(page_size:100)")
        assert answer.ok is lab
        if lab:
            assert answer.json()["count"] >= 15
        assert one.page.request.get(f"{one.base}/api/v1/security/users/").status in (403, 404)


def test_up_again_keeps_what_runs(installation: Installation) -> None:
    before = installation.status
    assert installation.up() == before["url"]
    assert installation.status["processes"] == before["processes"]


def test_a_backup_comes_back(installation: Installation, browser: Any) -> None:
    installation.run("user", "add", "kept", "--role", "viewer", "--password-stdin", stdin="kept password\n")
    archive = installation.folder / "backup.zip"
    installation.run("backup", str(archive))
    installation.run("restore", str(archive), code=2)  # the server runs
    other = Installation(installation.folder / "other", installation.database)
    (other.folder / "runs").mkdir(parents=True)
    other.run("restore", str(archive))
    try:
        with signed_in(browser, other.up(), "kept", "kept password") as one:
            assert one.open(SLUGS["performance"])
    finally:
        other.run("down")


def test_in_the_foreground_it_ends_with_its_signal(installation: Installation) -> None:
    """As systemd runs it."""
    other = Installation(installation.folder / "foreground", installation.database)
    other.folder.mkdir()
    words = [
        "up",
        "--foreground",
        "--port",
        "0",
        "--artifact-port",
        "0",
        "--db",
        f"sqlite:///{installation.database}",
        "--runs",
        str(installation.folder / "runs"),
        "--home",
        str(other.folder / "home"),
    ]
    command = [sys.executable, "-m", "opscope.harness.cli.main", "dashboard", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        assert process.stdout.readline().startswith("user admin, password in ")
        assert process.poll() is None
        process.terminate()
        assert process.wait(60) == 0
        assert other.run("down") == "no server is running\n"
    finally:
        process.kill()
        process.communicate()
