"""`opscope report` of a night: every lane, what is missing, what changed, and no more than a browser takes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opscope.reports.commands.report import report
from opscope.reports.pages import night_page
from opscope.reports.pages.html import LARGE, packed_data
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, publish_night, record, shard_run
from opscope.reports.tests.nights import Op, op_id

ROOT = Path(__file__).parents[2]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = "<script>alert('x')</script>"


def run(*words: str) -> Result:
    return CliRunner().invoke(report, words, catch_exceptions=True)


def data(text: str) -> dict:
    return json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[0])


def test_a_night_with_two_lanes_a_missing_model_and_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = fresh(tmp_path / "db.sqlite")
    ops = {"add": Op(uses={"a": 2}), "exp": Op(uses={"b": 1})}
    publish_night(url, tmp_path / "1", 1, ops)
    night = record(2, archs=("n150", "p150"))
    broken = {"add": Op("compile_failed", uses={"a": 2}, error=HOSTILE)}
    first = shard_run(tmp_path / "2", night, 2, broken)
    publish(first, url)
    publish(shard_run(tmp_path / "3", night, 3, ops, arch="p150"), url)
    done = run("--db", url)
    assert done.exit_code == 0, done.output
    [page] = tmp_path.glob("report-*.html")
    text = page.read_text(encoding="utf-8")
    assert "n150 is partial: model b missing. Ops that did not run are not gone." in text
    assert "p150 is partial" not in text
    warnings = " ".join(re.sub(r"<[^>]+>", " ", text.partition('<script type="application/json"')[0]).split())
    assert "Since the previous night: n150" in warnings
    assert "NEW 1 NEVER-RUN 1" in warnings
    assert "n150: 2 models = 1 ran + 1 missing; 1 unique op = 1 compile_failed" in warnings
    assert HOSTILE not in text
    assert {(row["id"], row["backend"]) for row in data(text)["ops"]} == {
        (op_id("add"), "n150"),
        (op_id("add"), "p150"),
        (op_id("exp"), "p150"),
    }


def test_an_hour_that_nights_share_stands_once_among_the_chips() -> None:
    hours = (datetime(2026, 11, 27, hour, tzinfo=UTC) for hour in (3, 2, 2))
    nights = [{"night_id": f"{number}", "kind": "night", "started": hour} for number, hour in enumerate(hours)]
    assert ("started", "2026-11-27 02:00 UTC, 2026-11-27 03:00 UTC") in night_page._chips(nights, [], ["a"])


def test_a_run_by_its_folder_by_its_id_and_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = fresh(tmp_path / "db.sqlite")
    night_id = publish_night(url, tmp_path / "1", 1, {"add": Op(uses={"a": 1}), "exp": Op(uses={"b": 1})})
    folder = next((tmp_path / "1").iterdir())
    assert run(str(folder), "--db", url, "-o", "page.html").exit_code == 0
    assert run(folder.name, "--db", url, "-o", "published.html").exit_code == 0
    assert night_id in (tmp_path / "published.html").read_text(encoding="utf-8")
    ops = [
        {row["id"] for row in data((tmp_path / name).read_text())["ops"]} for name in ("page.html", "published.html")
    ]
    assert ops[0] == ops[1]
    done = run("nothing", "--db", url)
    assert str(done.exception).startswith("NIGHT: expected a night, a run folder or the id of a published run")


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page in")
def test_a_night_of_sixty_models_opens_without_a_complaint(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="pip install 'opscope[browser]'")
    url = fresh(tmp_path / "db.sqlite")
    for day in ("2026-11-19", "2026-11-20"):
        words = [sys.executable, ROOT / "ci" / "big_run.py", tmp_path / day, "--op-tests", "10000", "--night", day]
        subprocess.run(words, check=True)
        publish(tmp_path / day, url)
    page = tmp_path / "night.html"
    assert run("--db", url, "-o", str(page)).exit_code == 0
    assert page.stat().st_size <= 5_000_000
    assert 'data-packed="gzip"' in page.read_text(encoding="utf-8")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        window = browser.new_page()
        said: list[str] = []
        asked: list[str] = []
        window.on("console", lambda message: said.append(message.text))
        window.on("pageerror", lambda error: said.append(str(error)))
        window.on("request", lambda request: asked.append(request.url))
        window.goto(page.as_uri())
        window.wait_for_selector("#chart-z svg", timeout=60_000)
        assert window.locator("#shown").inner_text() == "10000"
        window.fill("#search", "model_07 no kernel of kind 3")
        window.wait_for_function("document.getElementById('shown').innerText !== '10000'")
        assert 0 < window.locator("tr.op").count() < 300
        browser.close()
    assert said == []
    assert asked == [page.as_uri()]


def test_compressed_data_is_the_same_every_time() -> None:
    assert packed_data(["a" * LARGE, "b"]) == packed_data(["a" * LARGE, "b"])
