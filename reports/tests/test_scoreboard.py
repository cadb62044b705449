"""The scoreboard: its numbers, its links, since which release, and that equal databases give equal bytes."""

from __future__ import annotations

import json
import re
import sqlite3
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.harness.cli.main import root as opscope
from opscope.harness.record.stages import Stage
from opscope.reports.commands.scoreboard import scoreboard
from opscope.reports.pages.scoreboard import _repro
from opscope.reports.publish.publish import publish
from opscope.reports.records.demo_data import SAID
from opscope.reports.records.night_record import NightRecord
from opscope.reports.tests.night_runs import copied, copy_of, fresh, publish_night, shard_run
from opscope.reports.tests.nights import Op, op_id

HOSTILE = "</script><b>x</b>\u202e"
REFUSED = Op("compile_failed", failed=Stage.TTIR_TO_TTNN, error=HOSTILE, uses={"a": 1, "b": 2})
WRONG = Op("wrong_result", failed=Stage.COMPARE, error="PCC 0.1", uses={"a": 1})
CRASHED = Op("crashed", failed=Stage.RUN, error="SIGABRT", uses={"b": 1})
RIGHT, LEFT_OUT = Op(uses={"a": 1}), Op("skipped", uses={"b": 1})
RELEASES = {
    "0.9.2": {"add": RIGHT, "dot": REFUSED, "sort": WRONG, "tan": LEFT_OUT},
    "0.10.0": {"add": WRONG, "dot": REFUSED, "sort": RIGHT, "tan": LEFT_OUT},
    "0.10.1": {"add": WRONG, "dot": REFUSED, "sort": WRONG, "tan": CRASHED},
}
PAGE = "tt-n150-0.10.1.html"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three releases of one compiler, and two nights of another."""
    folder = tmp_path_factory.mktemp("scoreboard")
    url = fresh(folder / "db.sqlite")
    for number, (release, ops) in enumerate(RELEASES.items()):
        night = NightRecord(
            name=f"history-tt@{release}",
            started=datetime(2026, 1, 1 + number, tzinfo=UTC),
            models=("a", "b"),
            backends=(f"tt@{release}",),
            archs=("n150",),
            release=release,
        )
        publish(shard_run(folder / "runs", night, 60 + number, ops, backend=f"tt@{release}"), url)
    for number in (1, 2):
        publish_night(url, folder / "runs", number, {"add": RIGHT})
    return folder


@pytest.fixture
def url(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return copied(built, tmp_path)


def written(url: str, folder: Path) -> dict[str, str]:
    done = CliRunner().invoke(scoreboard, ["-o", str(folder), "--db", url], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def test_numbers_and_since(url: str, tmp_path: Path) -> None:
    columns = json.loads(written(url, tmp_path / "out")["scoreboard.json"])["columns"]
    assert [(column["compiler"], column["release"]) for column in columns] == [
        ("reference n150", "2026-11-03"),
        *(("tt n150", release) for release in RELEASES),
    ]
    assert [[*column["ops"].values()] for column in columns] == [[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 2, 1, 1]]
    rows = columns[-1]["rows"]
    assert rows["family eltwise"] == {"supported": 0, "wrong": 1, "refused": 0, "crashed": 1}
    assert rows["model b"] == {"supported": 0, "wrong": 0, "refused": 1, "crashed": 1}
    since = {failure["op_id"]: (failure["since"], failure["always"]) for failure in columns[-1]["failures"]}
    assert since == {
        op_id("add"): ("0.10.0", False),
        op_id("dot"): ("0.9.2", True),
        op_id("sort"): ("0.10.1", False),
        op_id("tan"): ("0.10.1", True),  # the releases before say nothing of it
    }
    assert columns[-1]["failures"][1]["repro"] == (
        f"pytest --op-by-op --model a --backend tt@0.10.1 --arch n150 -k {op_id('dot')}"
    )


@pytest.mark.parametrize(
    ("options", "board", "words"),
    [
        ({}, "", "--model net.net --backend xla@0.10.1 -k 0a"),
        ({"models": ["a.py:net", "in/net.py:net"]}, "", "--model in/net.py:net --backend xla@0.10.1 -k 0a"),
        ({"models": ["*"]}, "n150", "--model net.net --backend xla@0.10.1 --arch n150 -k 0a"),
        (
            {"workflow": "full", "backend_option": "enable_trace=true", "numerics": "hifi4"},
            "",
            "--model net.net --backend xla@0.10.1 --workflow full --backend-option enable_trace=true -k 0a",
        ),
    ],
)
def test_a_command_has_the_model_and_the_options_as_they_are_typed(options: Any, board: str, words: str) -> None:
    view: Any = SimpleNamespace(origin={"options": options}, backend="xla@0.10.1", board=board, arch="n150")
    assert _repro("0a", view, ["net.net"]) == f"pytest --op-by-op {words}"


class Links(HTMLParser):
    """The addresses of a page, and the ids that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.addresses.append(value)
            if name == "id" and value:
                self.ids.add(value)


def test_each_link_leads_to_something_beside_it(url: str, tmp_path: Path) -> None:
    files = written(url, tmp_path / "out")
    pages = {name: Links(text) for name, text in files.items() if name.endswith(".html")}
    for name, page in pages.items():
        for address in page.addresses:
            file, _, place = address.partition("#")
            assert (file or name) in files, address
            assert not place or place in pages[file or name].ids, address
    assert f"{PAGE}#family-eltwise" in pages["index.html"].addresses
    assert not [text for text in files.values() if re.search(r"https?://(?!www\.w3\.org)", text)], "no network"


def test_what_records_hold_is_text(url: str, tmp_path: Path) -> None:
    files = written(url, tmp_path / "out")
    assert "&lt;/script&gt;" in files[PAGE]
    assert not any(HOSTILE in text or "\u202e" in text for name, text in files.items() if name.endswith(".html"))
    badge = ElementTree.fromstring(files["badges/tt-n150-0.9.2.svg"])
    assert badge.get("aria-label") == "tt n150 0.9.2: 1 of 3 ops"


def test_equal_databases_give_equal_bytes(url: str, tmp_path: Path) -> None:
    assert written(url, tmp_path / "one") == written(url, tmp_path / "two")
    night = NightRecord(
        name="history-tt@0.9.2-more",
        started=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=1),
        models=("c",),
        backends=("tt@0.9.2",),
        archs=("n150",),
        release="0.9.2",
    )
    run = shard_run(tmp_path / "runs", night, 80, {"exp": Op(uses={"c": 1})}, backend="tt@0.9.2")
    publish(run, url)
    columns = json.loads(written(url, tmp_path / "three")["scoreboard.json"])["columns"]
    assert len(columns) == 4, "two nights of a release are one column"
    assert columns[1]["rows"]["model c"]["supported"] == 1


def test_without_a_night_it_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(opscope, ["scoreboard", "-o", str(tmp_path), "--db", fresh(tmp_path / "db.sqlite")])
    assert "expected a night, got none" in str(done.exception or done.output)


def test_made_up_results_are_said_on_every_page(url: str, tmp_path: Path) -> None:
    assert not any(SAID in text for text in written(url, tmp_path / "real").values())
    made_up = copy_of(url, tmp_path / "demo.sqlite")
    with sqlite3.connect(made_up.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE nights SET demo = 1")
    pages = {name: text for name, text in written(made_up, tmp_path / "demo").items() if name.endswith(".html")}
    assert pages
    assert all(SAID in text for text in pages.values())
