"""Plugins and options that teams use, beside an op-by-op run: real ones, with pins of their own.

They are no dependency: pytest loads every installed plugin at each start, and each would cost all tests its import.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.base.digest import words_digest
from opscope.harness.tests.acceptance.conftest import MODEL, Place
from opscope.harness.tests.acceptance.test_plugin import PICKY
from opscope.harness.tests.own_backend import own_backend

pytestmark = pytest.mark.slow
PINS = (
    "pytest-html==4.2.0",
    "pytest-metadata==3.1.1",
    "pytest-rerunfailures==16.7",
    "allure-pytest==2.16.2",
    "allure-python-commons==2.16.2",
    "attrs==26.1.0",
    "pytest-json-report==1.5.0",
    "pytest-cov==7.1.0",
    "coverage==7.10.7",
    "pytest-timeout==2.4.0",
)


@pytest.fixture(scope="module")
def plugins(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugins, installed once for all sessions."""
    assert pytestconfig.cache is not None
    folder = Path(pytestconfig.cache.mkdir("plugins")) / words_digest(*PINS, digits=12)
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.{os.getpid()}")
        command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(part), *PINS]
        subprocess.run(command, check=True, cwd=tmp_path_factory.mktemp("pip"))
        with contextlib.suppress(OSError):  # another worker was faster
            part.rename(folder)
        shutil.rmtree(part, ignore_errors=True)
    return folder


@pytest.fixture
def team(place: Place, plugins: Path) -> Place:
    """A folder with a backend that refuses matrix products, where the plugins are installed."""
    (place.folder / "picky.py").write_text(PICKY)
    place.environment["PYTHONPATH"] = str(plugins)
    return place


def counts(place: Place) -> tuple[int, int]:
    """Ops of the newest run that did not fail, and that did."""
    statuses = [test["status"] for test in place.records() if test["status"] not in ("skipped", "not_run")]
    return sum(status != "compile_failed" for status in statuses), statuses.count("compile_failed")


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one", "two"])
def test_pytest_html_has_a_row_for_each_op(team: Place, workers: tuple[str, ...]) -> None:
    done = team.pytest("--html=theirs.html", "--self-contained-html", *workers, backend="picky.py")
    assert done.code == 1, done.out + done.err
    text = (team.folder / "theirs.html").read_text()
    [blob] = re.findall(r'data-jsonblob="([^"]*)"', text)
    rows = json.loads(html.unescape(blob))["tests"]
    passed, failed = counts(team)
    results = [row["result"] for tests in rows.values() for row in tests]
    assert (results.count("Passed"), results.count("Failed")) == (passed, failed)
    assert any("no room for a dot" in row["log"] for tests in rows.values() for row in tests)


def test_allure_has_a_result_for_each_op(team: Place) -> None:
    done = team.pytest("--alluredir=results", backend="picky.py")
    assert done.code == 1, done.out + done.err
    assert "INTERNALERROR" not in done.out
    results = [json.loads(path.read_text()) for path in (team.folder / "results").glob("*-result.json")]
    passed, failed = counts(team)
    statuses = [result["status"] for result in results]
    assert len(results) == passed + failed
    assert statuses.count("passed") == passed
    assert any("no room for a dot" in json.dumps(result.get("statusDetails", {})) for result in results)
    for result in results:
        labels = {label["name"] for label in result["labels"]}
        assert labels >= {"suite", "host", "framework"}, "their hooks around set-up and call were called"


def test_json_report_has_the_phases_and_the_times_of_each_op(team: Place) -> None:
    done = team.pytest("--json-report", "--json-report-file=theirs.json", "-n", "2", "--no-cache", backend="picky.py")
    assert done.code == 1, done.out + done.err
    assert "INTERNALERROR" not in done.out
    tests = json.loads((team.folder / "theirs.json").read_text())["tests"]
    passed, failed = counts(team)
    assert [sum(test["outcome"] == outcome for test in tests) for outcome in ("passed", "failed")] == [passed, failed]
    assert all({"setup", "call", "teardown"} <= set(test) and test["call"]["duration"] > 0 for test in tests)


def test_cov_measures_beside_a_run(team: Place) -> None:
    done = team.pytest("--cov=.", "--cov-report=term", "-n", "2", backend="picky.py")
    assert done.code == 1, done.out + done.err
    assert "INTERNALERROR" not in done.out + done.err
    assert sum(counts(team)) == 24


def test_rerunfailures_leaves_the_ops_to_us(team: Place) -> None:
    done = team.pytest("--reruns", "1", "--no-cache", backend="picky.py")
    assert done.code == 1, done.out + done.err
    assert "INTERNALERROR" not in done.out
    assert "rerun" not in done.lines[-1]
    refused = [test for test in team.records() if test["status"] == "compile_failed"]
    assert {len(test["outcomes"]) for test in refused} == {2}, "the run's own, and one again"


def test_a_timer_of_tests_ends_no_op(team: Place) -> None:
    (team.folder / "slow.py").write_text(own_backend("slow", "time.sleep(0.1)", stages="Stage.RUN", top="import time"))
    done = team.pytest("--timeout", "0.05", "--no-cache", backend="slow.py")
    assert done.code == 0, done.out + done.err
    assert done.err == "opscope: --timeout of pytest-timeout is left out: each op has --op-timeout\n"
    assert {test["status"] for test in team.records()} == {"stopped"}


def test_pytests_own_options(team: Place) -> None:
    first, longest, words, failed = team.one_after_another(
        team.sweep(backend="picky.py"),
        team.sweep("--durations=3", "--durations-min=0", backend="picky.py"),
        team.sweep("-k", "matmul", backend="picky.py"),
        team.sweep("--lf", backend="picky.py"),
    )
    assert first.code == longest.code == words.code == failed.code == 1
    assert "slowest 3 durations" in longest.out
    assert len(re.findall(rf"s call +{MODEL}::stablehlo", longest.out)) == 3
    runs = [
        [json.loads(line) for path in sorted((run / "journal").glob("*")) for line in path.read_text().splitlines()]
        for run in team.runs()
    ]
    ran = [{test["op_id"] for test in run if test["status"] not in ("skipped", "not_run")} for run in runs]
    refused = {test["op_id"] for test in runs[0] if test["status"] == "compile_failed"}
    assert ran[0] == ran[1] > ran[2]
    assert {test["op_kind"] for test in runs[2] if test["op_id"] in ran[2]} == {"matmul"}
    assert ran[3] == refused
