"""report.html in a real browser: what a reader clicks, sorts, searches and sends to somebody."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opscope.base import stored
from opscope.harness.record import artifacts
from opscope.harness.record.explanation import Explanation, ResultExplanation, WorstElement, folder_name
from opscope.harness.record.store import Journal, load_run
from opscope.reports.pages.html import write_report
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night
from opscope.reports.tests.sample_run import OPS, make_run, op_id

pytestmark = pytest.mark.slow
api = pytest.importorskip("playwright.sync_api", reason="playwright comes with the browser extra")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = {390: 844, 1280: 800, 1920: 1080}
FFT, TANH, ADD = op_id(3), op_id(2), op_id(0)
BROKEN = """() => {
  const broken = [];
  for (const table of document.querySelectorAll("table.plain")) {
    const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (!text.parentElement.checkVisibility()) continue;
      for (const word of text.data.matchAll(/[A-Za-z0-9]{2,}/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word[0]);
      }
    }
  }
  return broken;
}"""
"""The words of tables that stand on two lines."""
IR = """"builtin.module"() ({
  ^bb0(%0: tensor<4xf32> loc(unknown)):
    %1 = "stablehlo.add"(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(unknown)
    %2 = "stablehlo.fft"(%1) : (tensor<4xf32>) -> tensor<4xcomplex<f32>> loc(unknown)
}) : () -> ()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with an op that a stage refused, with its IR, and one whose numbers are explained."""
    run_dir = make_run(tmp_path_factory.mktemp("browser") / "run", repeat=30)
    artifacts.write(run_dir, FFT, "ir-reference/0-stablehlo.mlir", IR)
    known = Explanation(
        op_id=TANH,
        op_name="stablehlo.tanh",
        backend="reference",
        results=(
            ResultExplanation(
                number=0,
                shape=(4,),
                data_type="f32",
                reason="pcc low",
                wrong=1,
                count=4,
                worst=(WorstElement(index=(2,), place="tile (0, 0)", expected="1.5", got="-7.25", z=8.0),),
            ),
        ),
    )
    text = artifacts.write(run_dir, TANH, f"{folder_name('reference')}/compare.txt", "pcc low\n")
    place = run_dir / "artifacts" / TANH / folder_name("reference") / "compare.json"
    place.write_bytes(stored.sealed(known.model_dump_json(), place.name) + b"\n")
    [wrong] = [test for test in load_run(run_dir).tests if test.op_id == TANH]
    [fft] = [test for test in load_run(run_dir).tests if test.op_id == FFT]
    with Journal(run_dir, "again") as journal:
        journal.append(wrong.model_copy(update={"artifact": text, "attempt": 2}))
        journal.append(fft.model_copy(update={"error_message": "stablehlo.fft: no complex numbers", "attempt": 2}))
    return write_report(run_dir)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield one
        one.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    one = browser.new_page(viewport={"width": 1280, "height": 800})
    errors: list[str] = []
    one.on("pageerror", lambda error: errors.append(str(error)))
    one.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield one
    one.close()
    assert errors == []


def opened(page: Any, report: Path, hash: str = "") -> Any:
    page.goto(f"{report.as_uri()}{hash}")
    page.wait_for_selector("#ops tbody tr.op")
    return page


def names(page: Any) -> list[str]:
    return page.locator("#ops tbody tr.op td:first-child > code").all_inner_texts()


def test_an_address_opens_an_op(page: Any, report: Path) -> None:
    opened(page, report, f"#op={ADD}")
    [details] = page.locator("tr.details").all()
    assert ADD in details.inner_text()
    assert details.is_visible()
    box = page.locator(f"tr[data-op='{ADD}']").bounding_box()
    assert 0 <= box["y"] < 800, "it is scrolled to"
    page.goto(f"{report.as_uri()}#op={TANH[:8]}")
    page.wait_for_function(f"document.querySelector('tr.details')?.innerText.includes('{TANH}')")
    page.goto(f"{report.as_uri()}#op=ffff")
    page.wait_for_function("document.getElementById('unknown').textContent === 'This page has no op ffff.'")


def test_a_failure_has_an_anchor_although_it_is_folded(page: Any, report: Path) -> None:
    opened(page, report, f"#op-{FFT}")
    heading = page.locator(f"#op-{FFT}")
    assert heading.is_visible()
    assert 0 <= heading.bounding_box()["y"] < 800
    link = page.locator(f"#op-{FFT} ~ p.meta a", has_text="all details").first
    assert link.get_attribute("href") == f"#op={FFT}"


def test_an_op_beyond_the_first_rows_is_found(page: Any, report: Path) -> None:
    last = op_id(len(OPS) * 30 - 1)
    opened(page, report, f"#op={last}&sort=-uses&search=dot_general")
    assert last in page.locator("tr.details").inner_text(), "whatever is searched for"
    assert set(names(page)[1:]) == {"stablehlo.dot_general"}


def test_search_and_order_are_in_the_address(page: Any, report: Path, browser: Any) -> None:
    opened(page, report)
    page.fill("#search", "eltwise 64")
    page.click("#filters button[data-status=success]")
    page.click("#ops thead th:has-text('cycles')")
    here = page.evaluate("location.hash")
    assert here == "#search=eltwise+64&status=success&sort=-cycles"
    shown = page.locator("#ops tbody").inner_text()
    other = browser.new_page()
    opened(other, report, here)
    assert other.locator("#ops tbody").inner_text() == shown
    assert other.input_value("#search") == "eltwise 64"
    assert other.locator("#ops th[aria-sort=descending]").inner_text() == "cycles"
    other.close()
    page.fill("#search", "")
    page.click("#filters button[data-status=success]")
    assert page.evaluate("location.hash") == "#sort=-cycles"


COLUMNS = 9
"""Of the table of ops in this run: one that nothing fills, such as z here, is not shown."""


@pytest.mark.parametrize("column", range(COLUMNS))
def test_the_table_sorts_by_any_column(page: Any, report: Path, column: int) -> None:
    opened(page, report)
    page.click("#more")
    assert page.locator("#ops thead th").count() == COLUMNS
    head = page.locator("#ops thead th").nth(column)
    seen = {}
    for _ in range(2):
        head.click()
        cells = page.locator(f"#ops tbody tr.op td:nth-child({column + 1})").all_inner_texts()
        seen[head.get_attribute("aria-sort")] = [cell for cell in cells if cell.strip()]
    assert seen.keys() == {"ascending", "descending"}
    up, down = seen["ascending"], seen["descending"]
    assert sorted(up) == sorted(down)
    figures = [cell.replace(",", "") for cell in up]
    if head.get_attribute("class") == "n":
        assert [float(cell) for cell in figures] == sorted(map(float, figures))
        assert [float(cell.replace(",", "")) for cell in down] == sorted(map(float, figures), reverse=True)
    elif column < 3:
        words = [cell.split("\n")[0].removesuffix(" known") for cell in up]
        assert words == sorted(words)


def test_ir_has_the_failing_line_marked_and_wrong_numbers_have_both(page: Any, report: Path) -> None:
    opened(page, report, f"#op={FFT}")
    marked = page.locator("tr.details .ir .marked")
    assert marked.count() == 1
    assert marked.inner_text().startswith("4")
    assert '"stablehlo.fft"(%1)' in marked.inner_text()
    assert "loc(unknown)" not in page.locator("tr.details .ir").inner_text()
    page.goto(f"{report.as_uri()}#op={TANH}")
    table = page.locator("tr.details table.worst")
    table.wait_for()
    assert table.locator("thead").inner_text().split() == ["element", "expected", "got", "z"]
    assert [cell.inner_text() for cell in table.locator("tbody td").all()][1:] == ["1.5", "-7.25", "8"]
    page.goto(f"{report.as_uri()}#op-{FFT}")
    folded = page.locator(f"details.stages[data-op='{FFT}']")
    folded.locator("summary").first.click()
    assert '"stablehlo.fft"' in folded.locator(".marked").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(browser: Any, report: Path, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme)
    opened(page, report, f"#op={FFT}")
    page.wait_for_selector(".chart svg")
    page.evaluate("document.querySelector('.chip').append(' libtt.so sha256 ' + '0123456789abcdef'.repeat(16))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    if folder := os.environ.get("OPSCOPE_PICTURES"):
        page.screenshot(path=Path(folder) / f"report-{width}-{scheme}.png")
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=Path(folder) / f"report-{width}-{scheme}-top.png")
    page.close()


def test_the_first_cause_is_on_the_first_screen_of_a_telephone(browser: Any, report: Path) -> None:
    """Where the run came from, with digests of whole libraries, is folded at the end."""
    page = opened(browser.new_page(viewport={"width": 390, "height": 844}), report)
    cause = page.locator("article.ng-cause .ng-what").first.bounding_box()
    assert cause["y"] + cause["height"] <= 844
    assert page.locator("summary", has_text="Where this run came from").bounding_box()["y"] > 2 * 844
    page.close()


def test_on_a_telephone_words_of_tables_are_whole_and_worst_elements_are_seen(browser: Any, report: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    opened(page, report, f"#op={TANH}")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.evaluate(BROKEN) == []
    tables = page.locator("table.worst").all()
    assert len(tables) == 2, "below the failure and in the table of ops"
    for table in tables:
        cells = [cell.bounding_box() for cell in table.locator("td").all() if cell.inner_text()]
        assert cells
        for box in cells:
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        assert "expected" in table.locator("td").nth(1).evaluate("cell => getComputedStyle(cell, '::before').content")
    page.close()


def test_a_model_beside_many_ops_is_whole(browser: Any, tmp_path: Path) -> None:
    url, kept = fresh(tmp_path / "db.sqlite"), {"add": Op(uses={"b": 1})}
    gone = {f"operation_number_{number}": Op(uses={"transformer": 1}) for number in range(40)}
    publish(night(tmp_path, 1, kept | gone), url)
    page = opened(
        browser.new_page(viewport={"width": 1280, "height": 800}), write_report(night(tmp_path, 2, kept), url)
    )
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.locator("td", has_text="40 ops").count() == 1
    assert page.evaluate(BROKEN) == []
    page.close()
