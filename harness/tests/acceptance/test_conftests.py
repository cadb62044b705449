"""An op-by-op run in a team's own repository: their conftest files work beside it, and change nothing about the ops."""

from __future__ import annotations

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
        (
            "def pytest_addoption(parser):\n    parser.addoption('--model')",
            "ArgumentError: argument --model: conflicting option string: --model",
        ),
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
