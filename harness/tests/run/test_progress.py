from __future__ import annotations

import io
import itertools
import os
import pty
import re
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opscope.harness.record.stages import Status
from opscope.harness.run import progress

TESTS = ["mnist::stablehlo.add[1]", "mnist::stablehlo.dot_general[2]", "resnet::stablehlo.convolution[3]"]


def phase(name: str, done: int, total: int) -> dict[str, object]:
    return {"event": "stage", "model": "m", "stage": name, "done": done, "total": total}


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass, which stands still otherwise."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def passed(by: float) -> None:
        now[0] += by

    return passed


def test_lines_say_each_phase_once(seconds: Callable[[float], None]) -> None:
    lines: list[str] = []
    shown = progress.Lines(lines.append)
    for done in range(4):
        shown.prepared(phase("golden", done, 3))
        seconds(2)
    shown.prepared({"event": "done", "model": "m", "export_dir": "x", "cached": False})
    shown.close()
    assert lines == ["opscope: m: goldens of 3 ops evaluated in 6.0 s"]


def test_lines_of_a_walk_say_once_what_it_takes_up_from_a_split(seconds: Callable[[float], None]) -> None:
    lines: list[str] = []
    shown = progress.Lines(lines.append)
    for stage, total in (("export", 1), ("split", 1), ("export", 1), ("split", 1), ("golden", 1)):
        shown.prepared(phase(stage, 0, total))
        seconds(1)
        shown.prepared(phase(stage, total, total))
    shown.close()
    assert [line.rsplit(" in ", 1)[0] for line in lines] == [
        "opscope: m: exported",
        "opscope: m: split into single ops",
        "opscope: m: goldens of 1 op evaluated",
    ]


def test_a_phase_of_less_than_a_second_leaves_no_line(seconds: Callable[[float], None]) -> None:
    """Thirty small models had ninety lines before their table."""
    lines: list[str] = []
    shown = progress.Lines(lines.append)
    for took in (0.9, 0.0, 1.0):
        shown.prepared({**phase("split", 0, 1), "model": f"model of {took} s"})
        seconds(took)
        shown.prepared({**phase("split", 1, 1), "model": f"model of {took} s"})
    shown.close()
    assert lines == ["opscope: model of 1.0 s: split into single ops in 1.0 s"]


def test_a_phase_takes_the_time_since_it_began_whatever_begins_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    shown = progress.Lines(lines.append)
    for at, event in (
        (10, phase("golden", 0, 3)),
        (17, phase("import", 0, 1)),
        (18, phase("golden", 3, 3)),
        (20, phase("import", 1, 1)),
    ):
        monkeypatch.setattr(time, "monotonic", lambda at=at: float(at))
        shown.prepared(event)
    shown.close()
    assert [line.rsplit(" in ", 1)[1] for line in lines] == ["8.0 s", "3.0 s"]


def test_lines_say_once_a_minute_where_the_run_is() -> None:
    lines: list[str] = []
    shown = progress.Lines(lines.append, minute=0.05)
    shown.begin(TESTS)
    shown.started(TESTS[0])
    shown.ended(TESTS[0], Status.SUCCESS, expected=False)
    shown.started(TESTS[1])
    time.sleep(0.12)
    shown.close()
    assert lines[0] == "opscope: model 1/2 · op 1/3 · stablehlo.dot_general 0 s"
    assert len(lines) <= 3


def test_preparation_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    state = progress.State()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3)
    assert state.text() == "preparing · 3 s"
    state.prepared({"event": "models", "total": 82})
    state.prepared({"event": "done", "model": "a", "export_dir": "x", "cached": True})
    state.prepared(phase("export", 0, 1))
    assert state.text() == "model 2/82 · m · exporting · 0 s"
    state.prepared({"event": "op", "model": "m", "op": "stablehlo.add", "seconds": 1.0})
    assert state.text() == "model 2/82 · m · golden · stablehlo.add · 1 s"
    state.prepared(phase("golden", 12, 162))
    monkeypatch.setattr(time, "monotonic", lambda: now + 13)
    state.prepared({"event": "op", "model": "m", "op": "stablehlo.dot_general", "seconds": 14.0})
    assert state.text() == "model 2/82 · m · golden 12/162 · stablehlo.dot_general · 14 s"
    state.prepared({"event": "op", "model": "m", "op": "", "seconds": 0.0})
    assert state.text() == "model 2/82 · m · golden 12/162 · 0 s"


def test_ops_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    state = progress.State()
    state.begin(TESTS)
    state.started(TESTS[0])
    now[0] += 2
    assert not state.ended(TESTS[0], Status.RUN_FAILED, expected=False)
    state.started(TESTS[1])
    now[0] += 2
    assert state.ended(TESTS[1], Status.RUN_FAILED, expected=True), "mnist is through"
    state.started(TESTS[2])
    now[0] += 20
    assert state.text() == "model 2/2 · op 2/3 · stablehlo.convolution 20 s · ETA 12 s · 1 failed"
    state.doing("publishing")
    assert state.text() == "publishing · 0 s"


def test_parallel_ops_name_the_one_that_takes_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    state = progress.State()
    state.begin(TESTS)
    state.started(TESTS[2])
    now[0] += 5
    state.started(TESTS[0])
    state.ended(TESTS[0], Status.SUCCESS, expected=False)
    state.started(TESTS[1])
    assert state.text() == "model 1/2 · op 1/3 · stablehlo.convolution 5 s"


class Terminal:
    """A terminal of 14 rows and 80 columns."""

    def __init__(self) -> None:
        import fcntl
        import termios

        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 14, 80, 0, 0))

    def drawn(self) -> list[tuple[float, str]]:
        """What was written, with its moments, until nobody has the terminal open."""
        pieces = []
        while True:
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                return pieces
            if not piece:
                return pieces
            pieces.append((time.monotonic(), piece.decode("utf-8", "replace")))


def test_live_leaves_a_line_for_each_model() -> None:
    screen = Terminal()
    lines: list[str] = []
    with os.fdopen(screen.slave, "w") as file:
        shown = progress.Live(file, lines.append, second=0.02)
        shown.prepared(phase("export", 1, 1))
        time.sleep(0.1)
        shown.begin(TESTS)
        for test, status, expected in zip(
            TESTS, (Status.SUCCESS, Status.RUN_FAILED, Status.SUCCESS), (False, True, True), strict=True
        ):
            shown.started(test)
            time.sleep(0.05)
            shown.ended(test, status, expected=expected)
        shown.close()
        shown.close()
    text = "".join(piece for _, piece in screen.drawn())
    os.close(screen.master)
    assert lines == ["mnist: 2 ops in 0 s: 1 known limitation, 1 success", "resnet: 1 op in 0 s: 1 unexpected pass"]
    assert "m · exporting · 0 s" in text
    assert "model 2/2 · op 2/3 · stablehlo.convolution 0 s" in text
    assert "\n" not in text, "nothing scrolls"
    assert "\x1b[?25l" not in text, "the cursor stays, however the run ends"


def test_display_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*, terminal: bool, verbosity: int) -> progress.Quiet:
        return progress.display(terminal=terminal, verbosity=verbosity, file=io.StringIO(), write_line=lambda _: None)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("OPSCOPE_PLAIN", raising=False)
    assert isinstance(made(terminal=True, verbosity=0), progress.Live)
    assert isinstance(made(terminal=True, verbosity=1), progress.Lines)
    assert isinstance(made(terminal=False, verbosity=0), progress.Lines)
    assert isinstance(made(terminal=True, verbosity=-1), progress.Quiet)
    monkeypatch.setenv("OPSCOPE_PLAIN", "1")
    assert isinstance(made(terminal=True, verbosity=0), progress.Lines)


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_run_on_a_terminal_ticks_each_second_in_one_row(tmp_path: Path, more: list[str]) -> None:
    """A real run in a terminal of 14 rows: never still for long, no row that is too wide, a line for each model.

    The model takes longer than some ticks wherever it runs.
    """
    screen = Terminal()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:benchmark",
        "-p",
        "no:randomly",
        "--model",
        "resnet50",
        "--op-by-op",
        "--no-cache",
        *more,
    ]
    environment: dict[str, Any] = {**os.environ, "TERM": "xterm", "OPSCOPE_CACHE_DIR": str(tmp_path / "cache")}
    for name in ("COLUMNS", "OPSCOPE_PLAIN", "NO_COLOR", "CI", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=screen.slave, stdout=screen.slave, stderr=screen.slave
    )
    os.close(screen.slave)
    pieces = screen.drawn()
    assert process.wait() == 0
    os.close(screen.master)
    text = "".join(piece for _, piece in pieces)
    live, page = text.split(" op by op ", 1)
    assert "resnet50 · exporting · " in live
    assert re.search(r"model 1/1 · op \d+/133", live)
    assert re.search(r"resnet50: 133 ops in [\w ]+: 133 success", live)
    assert "133 passed" in page
    rows = [row.split("\x1b[K")[0] for row in live.split("\r") if " · " in row]
    assert rows
    assert max(map(len, rows)) < 80
    began = next(moment for moment, piece in pieces if " · " in piece)
    ended = next(moment for moment, piece in pieces if " op by op " in piece)
    moments = [moment for moment, _ in pieces if began <= moment <= ended]
    gaps = [late - early for early, late in itertools.pairwise(moments)]
    assert statistics.median(gaps) < 1.5, gaps  # the longest one is the machine's, if it is busy
    scrolled = live.count("\n") - live.split(" · ")[0].count("\n")
    assert scrolled <= 8, live


@pytest.mark.slow
def test_piped_run_draws_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:benchmark", "--model", "mnist_mlp", "--op-by-op"]
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "\r" not in done.stdout
    assert "\x1b" not in done.stdout
