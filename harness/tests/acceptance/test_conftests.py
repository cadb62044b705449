"""An op-by-op run in a team's own repository: their conftest files work beside it, and change nothing about the ops."""

from __future__ import annotations

import json

import pytest

from opscope.harness.record.records import VOLATILE
from opscope.harness.tests.acceptance.conftest import Place

THEIRS = """
import os
import pytest

os.environ["XLA_FLAGS"] = "--no_such_flag"
os.chdir("/")

def pytest_addoption(parser):
    parser.addoption("--board", default="none")

def pytest_configure(config):
    os.environ["THEIRS"] = "late"

def pytest_report_header(config):
    return f"their board is {config.option.board}"

def pytest_collection_modifyitems(items):
    del items[:]

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.outcome = "failed"
    return report

def pytest_runtest_logreport(report):
    assert report.nodeid

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"their summary of {len(terminalreporter.stats['passed'])}")

@pytest.fixture(autouse=True, scope="session")
def device():
    raise RuntimeError("their device")
"""


def same(place: Place) -> list[dict]:
    """The newest run's records without what differs from run to run."""
    return [
        {name: value for name, value in test.items() if name not in VOLATILE | {"digest"}} for test in place.records()
    ]


def theirs(place: Place, text: str = THEIRS) -> Place:
    (place.folder / "conftest.py").write_text(text)
    (place.folder / "pytest.ini").write_text("[pytest]\naddopts = --board n300\nfilterwarnings = error\n")
    return place


@pytest.mark.slow
def test_their_options_and_hooks_work_and_no_op_passes_through_them(place: Place) -> None:
    done = theirs(place).pytest()
    assert done.code == 0, done.out + done.err
    assert "their board is n300" in done.lines
    assert "passes over arrays" not in done.out
    assert (
        "not called in an op-by-op run: conftest.py: pytest_collection_modifyitems, pytest_runtest_makereport"
        in done.lines
    )
    changed = (
        "opscope: a conftest file or plugin changes XLA_FLAGS, the current folder, THEIRS; the ops run without that"
    )
    assert done.lines.count(changed) == 1
    [summary] = [line for line in done.lines if line.startswith("their summary of ")]
    assert int(summary.split()[-1]) == len(place.records()) > 10


@pytest.mark.slow
def test_the_records_are_those_of_a_run_elsewhere(place: Place) -> None:
    assert place.pytest(backend="reference").code == 0
    alone = same(place)
    theirs(place)
    for words in (
        (),
        ("-n", "2"),
        ("--no-cache",),
        ("--noconftest", "-o", "addopts="),
        ("--ignore-conftest", "-o", "addopts="),
    ):
        done = place.pytest(*words, backend="reference")
        assert done.code == 0, done.out + done.err
        assert ("their board" in done.out) == ("addopts=" not in words)
        key = "op_id"
        assert sorted(same(place), key=lambda test: test[key]) == sorted(alone, key=lambda test: test[key])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('their\\nconftest')", r"RuntimeError: their\nconftest"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise SystemExit('leave')", "SystemExit: leave"),
        ("import pytest\npytest.skip('no board', allow_module_level=True)", "Skipped: no board"),
    ],
)
def test_a_conftest_that_fails_is_left_out_with_a_line(place: Place, text: str, said: str) -> None:
    (place.folder / "conftest.py").write_text(text)
    (place.folder / "tests").mkdir()
    (place.folder / "tests" / "conftest.py").write_text("raise RuntimeError('another')")
    done = place.pytest()
    assert done.code == 0, done.out + done.err
    assert done.out.count("is left out") == 1
    line = f"opscope: conftest.py is left out, and what it would load: {said}"
    assert " ".join(line.split()) in " ".join(done.out.split()), "the terminal may break it"
    assert len(place.records()) > 10
    assert place.pytest(OPSCOPE_IGNORE_CONFTEST="1").out.count("left out") == 0


def test_however_a_run_is_asked_for_no_conftest_decides_about_it(place: Place) -> None:
    (place.folder / "conftest.py").write_text("raise RuntimeError('their conftest')")
    ways = (("--op-by-op",), ("--workflow", "full"), ("--workflow=windows:3",))
    for done in place.one_after_another(*(("pytest", *words, "--op", "no.such.op") for words in ways)):
        assert (done.code, "their conftest" in done.err) == (2, False)
        assert done.err.startswith("pytest --op-by-op: --op"), done.err


OPTIONS = """
def pytest_addoption(parser):
    for name in ("seed", "model", "backend", "dtype", "op", "workflow", "arch"):
        parser.addoption(f"--{name}", default="none")

def pytest_report_header(config):
    return f"their seed is {config.option.seed}, their model {config.getoption('--model')}"
"""
A_TEST = "def test_theirs(request):\n    assert request.config.getoption('--workflow') in ('none', 'fast')\n"


def with_options(place: Place) -> Place:
    """A project with options of its own that have our names."""
    (place.folder / "conftest.py").write_text(OPTIONS)
    (place.folder / "test_theirs.py").write_text(A_TEST)
    return place


def test_where_no_run_is_asked_for_a_projects_options_are_its_own(place: Place) -> None:
    theirs = ("--seed", "7", "--model=x", "--workflow", "fast")
    for done in with_options(place).one_after_another(("pytest",), ("pytest", *theirs)):
        assert (done.code, done.err) == (0, ""), done.out + done.err
        assert "1 passed" in done.out
        assert "opscope:" not in done.out
    assert "their seed is 7, their model x" in done.lines
    assert not place.runs()


@pytest.mark.slow
def test_in_a_run_they_keep_name_and_value_and_ours_have_a_longer_name(place: Place) -> None:
    run = ("--op-by-op", "--no-report", "--opscope-backend", "null")
    done = with_options(place).run("pytest", *run, "--opscope-model=mnist_mlp", "--seed", "7", "--opscope-seed", "3")
    assert done.code == 0, done.out + done.err
    assert "their seed is 7, their model none" in done.lines
    line = "--seed is an option of this project, or of another plugin, and has its value; opscope's is --opscope-seed"
    assert done.err == f"opscope: {line}\n"
    assert json.loads((place.runs()[-1] / "run.json").read_text())["origin"]["options"]["seed"] == 3
    refused = place.run("pytest", *run, "--model", "mnist_mlp")
    assert refused.code == 2
    assert "--model: expected --opscope-model, as --model is an option of this project" in refused.err


@pytest.mark.slow
def test_an_option_of_a_run_is_refused_where_there_is_none_and_nobody_else_has_it(place: Place) -> None:
    for words in (("--model", "mnist_mlp"), ("--resume=x",)):
        done = place.run("pytest", *words)
        assert done.code == 2, done.out
        assert f"{words[0].partition('=')[0]}: expected --op-by-op or --workflow as well" in done.err
    assert "--op-by-op" in place.run("pytest", "--help").out
    assert place.run("pytest", "--seed", "3").code == 4, "pytest's own word for what nobody has declared"
