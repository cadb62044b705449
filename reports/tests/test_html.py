"""report.html is one file that needs no network, runs nobody else's script, and shows what the records say."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from html.parser import HTMLParser
from pathlib import Path

import altair
import pytest

from opscope.base.statuses import OTHER_STAGE
from opscope.base.tests.captured import captured
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import StageTime
from opscope.harness.record.stages import Stage, Status
from opscope.harness.record.store import load_run
from opscope.reports.pages import vega_lite
from opscope.reports.pages.charts import charts
from opscope.reports.pages.html import render, write_report
from opscope.reports.pages.page_rows import UNTRIED, ladders, op_rows, tiles
from opscope.reports.records.columns import plain
from opscope.reports.tests.sample_run import OPS, make_run, op_id

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Page(HTMLParser):
    """The elements, texts and scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        (self.scripts if self.tags and self.tags[-1][0] == "script" else self.texts).append(data)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(make_run(tmp_path_factory.mktemp("html") / "run"))


@pytest.fixture(scope="module")
def page(report: Path) -> Page:
    return Page(report.read_text(encoding="utf-8"))


def test_the_report_is_one_file_that_needs_no_network(report: Path, page: Page) -> None:
    assert report.stat().st_size < 600_000
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert tag not in ("link", "iframe", "img", "object"), tag
        href = attributes.get("href")
        assert href is None or href.startswith(("artifacts/", "#op=")), href
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_texts_of_records_are_escaped(report: Path, page: Page) -> None:
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 3
    assert "alert('x')" in "".join(page.texts)
    assert "<script>alert" not in report.read_text(encoding="utf-8")
    assert not {"<", ">", "&"} & set(page.scripts[0])


def test_the_page_holds_every_op_and_its_numbers(page: Page) -> None:
    data = json.loads(page.scripts[0])
    assert [row["id"] for row in data["ops"]] == [op_id(number) for number in range(len(OPS))]
    ladders = {"chart-ladder-ops-0", "chart-ladder-uses-0", "chart-heat"}
    assert set(data["charts"]) == ladders | {"chart-time", "chart-cycles", "chart-z"}
    assert '"title": "+- %"' in json.dumps(data["charts"]["chart-cycles"]), "how far a card's cycles may be"
    text = " ".join(" ".join(page.texts).split())
    for expected in (
        "pass rate on simulator 18.2 %",
        "2 of 11 attempted",
        "pass rate on host 9.1 %",
        "passed the last stage 9.1 %",
        "0.4200000",
        "14 unique ops = 3 success",
        "notyet: sorting on the device",
        f"pytest --op-by-op --op {op_id(2)} --run-dir 'a run'",
    ):
        assert expected in text


@pytest.mark.parametrize("ran", [0, 1])
def test_a_page_without_ops_to_compare_carries_neither_charts_nor_their_scripts(tmp_path: Path, ran: int) -> None:
    run = load_run(make_run(tmp_path / "run"))
    left = [test for test in run.tests if test.status in UNTRIED] + run.tests[:ran]
    assert run.tests[0].status not in UNTRIED
    text = render(run._replace(tests=left))
    assert 'id="vega"' not in text
    assert 'class="chart"' not in text
    assert len(text) < 90_000


def test_ladder_counts_ops_and_uses(page: Page) -> None:
    text = " ".join(" ".join(page.texts).split())
    # split, stablehlo-to-ttir, ttir-to-ttnn, ttnn-to-flatbuffer, run, compare, not run, all; by hand from OPS
    assert "all 2 2 1 1 1 1 2 2 2 3 4 21 2 2 14 32" in text


def test_each_backend_has_a_ladder_and_rates_of_its_own(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run"))
    passed = {"status": Status.PASSED, "backend": "mine", "card_type": "host", "ran_on": "none"}
    passed |= {"stage_reached": Stage("link"), "z_max": None, "pcc": None, "cycles": None}
    own = [test.model_copy(update=passed) for test in run.tests]
    tests = [*run.tests, *own]
    rows = op_rows(tests)
    of_backends = dict(ladders(rows))
    heat = charts(plain(rows))["chart-heat"]["data"]["values"]
    shares = {(cell["model"], cell["kind"]): cell["ratio"] for cell in heat}
    assert (shares["demo on reference", "eltwise"], shares["demo on mine", "eltwise"]) == ("3/6", "6/6")
    assert [(name, of_backends[name]["ops"]) for name in of_backends] == [("reference", 14), ("mine", 14)]
    assert "link" in of_backends["mine"]["stages"]
    assert "link" not in of_backends["reference"]["stages"]
    assert {"chart-ladder-ops-0", "chart-ladder-ops-1", "chart-ladder-uses-1"} <= set(charts(rows))
    rates = {tile["label"]: tile["value"] for tile in tiles(tests, ["m"], rows)}
    assert rates["passed the last stage, mine"] == "100.0 %"
    assert rates["pass rate on simulator, reference"] == "18.2 %"
    alone = render(run._replace(tests=own, record=run.record.model_copy(update={"backend": "mine"})))
    chips = alone.partition("Where this run came from")[2].partition("<table")[0]
    assert ("<b>arch</b>" in chips, "<b>card</b> host" in chips) == (False, True)
    assert "<b>arch</b> n150" in render(run)


def test_an_op_on_two_backends_is_one_and_their_cycles_stay_apart(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run"))
    both = [*run.tests, *(test.model_copy(update={"backend": "mine"}) for test in run.tests)]
    alone, of_both = (
        {tile["label"]: tile["value"] for tile in tiles(each, ["m"], op_rows(each))} for each in (run.tests, both)
    )
    counted = ("unique ops", "failing", "expected failures")
    assert [of_both[name] for name in counted] == [alone[name] for name in counted]
    assert alone["failing"] not in ("0", alone["expected failures"])
    cycles = {name: value for name, value in of_both.items() if "cycles" in name}
    assert cycles == {f"device cycles, {name}": alone["device cycles"] for name in ("reference", "mine")}
    text = render(run._replace(tests=both, record=run.record.model_copy(update={"backend": "reference,mine"})))
    assert f'Failing ops <span class="count">{alone["failing"]}</span>' in text


def test_failures_come_first_and_the_most_used_is_open(report: Path, tmp_path: Path) -> None:
    text = report.read_text(encoding="utf-8")
    assert text.index("<h2>Failing ops") < text.index("<h2>Stages")
    # By hand from OPS: six errors that no limitation names, of which tanh stands twice in the models.
    assert "1 more, with fewer uses" in text
    assert text.index("stablehlo.tanh</code>") < text.index("stablehlo.fft</code>")
    run = load_run(make_run(tmp_path / "run"))
    good = render(run._replace(tests=[test for test in run.tests if not test.fails_run]))
    assert good.index("<h2>Stages") < good.index("<h2>Failing ops")
    assert "None: every attempted op is right" in good


def test_an_unexpected_pass_is_shown_as_a_failure(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run"))
    said = "unexpected pass: expected to fail at run (never: no such unit); delete the row"
    passed = run.tests[0].model_copy(update={"expected": said})
    [row] = op_rows([passed])
    assert (row["tone"], row["error"]) == ("bad", said)
    [known] = [test for test in run.tests if test.op_name == "stablehlo.sort"]
    assert op_rows([known])[0]["tone"] == "known"


def test_overwritten_inputs_are_shown(report: Path, tmp_path: Path) -> None:
    heading = "inputs the backend overwrote"
    assert heading not in report.read_text()
    run = load_run(make_run(tmp_path / "run"))
    spoilt = run.tests[0].model_copy(update={"overwritten_inputs": (0, 2)})
    text = render(run._replace(tests=[spoilt, *run.tests[1:]]))
    section = text[text.index(heading) :].partition("</section>")[0]
    assert f"<small>{spoilt.op_id}</small>" in section
    assert ">0, 2</td>" in section
    assert section.count("<tr>") == 2


def test_the_row_names_the_compiler_of_the_program_and_what_it_narrowed(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run"))
    narrowed = ("f32 -> bf16 at ttnn.max_pool2d",)
    test = run.tests[0].model_copy(update={"compiled_by": "jax-tt-plugin 0.1.3", "narrowed": narrowed})
    text = render(run._replace(tests=[test, *run.tests[1:]]))
    assert '"compiled_by": "jax-tt-plugin 0.1.3"' in text or '"compiled_by":"jax-tt-plugin 0.1.3"' in text
    assert "f32 -> bf16 at ttnn.max_pool2d" in text or r"f32 -\u003e bf16 at ttnn.max_pool2d" in text
    script = (Path(vega_lite.__file__).parent / "assets" / "report.js").read_text()
    assert 'add("compiled by", row.compiled_by)' in script
    assert 'add("narrowed", row.narrowed' in script


def test_a_stage_of_ones_own_has_a_colour(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run"))
    stages = tuple(StageTime(stage=Stage(word), seconds=0.5) for word in ("link", "run"))
    changed = [test.model_copy(update={"stages": stages, "stage_reached": Stage("link")}) for test in run.tests]
    text = render(run._replace(tests=changed))
    assert f"color-mix(in srgb, {OTHER_STAGE} " in text
    specifications = json.dumps(charts(plain(op_rows(changed))))
    assert f'"domain": ["link", "run"], "range": ["{OTHER_STAGE}"' in specifications


def test_charts_are_valid_vega_lite(report: Path) -> None:
    rows = plain(op_rows(load_run(report.parent).tests))
    for name, chart in charts(rows).items():
        altair.Chart.from_dict(chart, validate=True)
        assert chart["data"]["values"] if "values" in chart["data"] else chart["datasets"], name
    assert charts([]) == {}


def test_the_heatmap_counts_all_ops(report: Path) -> None:
    rows = plain(op_rows(load_run(report.parent).tests))
    cells = charts(rows)["chart-heat"]["data"]["values"]
    counted = {(cell["model"], cell["kind"]): (cell["right"], cell["attempted"], cell["ops"]) for cell in cells}
    # By hand from sample_run.OPS: add, floor and exponential are right, tanh is not; two were not attempted.
    assert counted["demo", "eltwise"] == (3, 4, 6)
    assert counted["demo", "fft"] == (0, 1, 1)


def test_the_javascript_is_that_of_altairs_vega_lite() -> None:
    assert altair.SCHEMA_VERSION.removeprefix("v").startswith(f"{vega_lite.VERSION}.")
    text = gzip.decompress(base64.b64decode(vega_lite.packed_javascript())).decode()
    assert "window.vegaEmbed=" in text


def test_a_run_without_a_single_result_still_has_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    shutil.rmtree(run / "journal")
    text = render(load_run(run))
    assert "14 unique ops ≠ 0" in text
    assert "ledger bad" in text


def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a run folder"):
        write_report(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page in")
def test_a_browser_draws_it_without_a_complaint(report: Path, tmp_path: Path) -> None:
    assert BROWSER is not None
    command = [
        BROWSER,
        "--no-sandbox",
        "--disable-gpu",
        "--headless",
        "--disable-background-networking",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}",
        "--window-size=1000,2000",
        "--virtual-time-budget=8000",
        "--dump-dom",
        report.as_uri(),
    ]
    done = captured(command, timeout=60, env={**os.environ, "HOME": str(tmp_path)})
    assert "CONSOLE" not in done.stderr
    assert done.stdout.count('class="marks"') == 6
    assert done.stdout.count('<tr class="op"') == len(OPS)
