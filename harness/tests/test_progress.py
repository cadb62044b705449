from __future__ import annotations

import io

from opscope.harness.record.stages import Status
from opscope.harness.run import progress


def phase(name: str, done: int, total: int) -> dict[str, object]:
    return {"event": "stage", "model": "m", "stage": name, "done": done, "total": total}


def test_lines_say_each_phase_once() -> None:
    lines: list[str] = []
    shown = progress.Lines(lines.append)
    for done in range(4):
        shown.prepared(phase("golden", done, 3))
    shown.prepared({"event": "done", "model": "m", "export_dir": "x", "cached": False})
    assert len(lines) == 1
    assert lines[0].startswith("opscope: m: goldens of 3 ops evaluated in ")


def test_live_counts_by_status_and_leaves_the_terminal() -> None:
    file = io.StringIO()
    shown = progress.Live(file, width=100)
    shown.prepared(phase("export", 1, 1))
    shown.begin(4)
    shown.ended(Status.SUCCESS, expected=False)
    shown.ended(Status.RUN_FAILED, expected=True)
    shown.ended(Status.GOLDEN_FAILED, expected=False)
    shown.ended(Status.SUCCESS, expected=True)
    text = file.getvalue()
    assert "m export" in text
    assert "golden_failed 1  known limitation 1  success 1  unexpected pass 1" in text
    assert "4/4" in text
    shown.close()
    shown.close()
    assert file.getvalue().count("\x1b[?25l") == file.getvalue().count("\x1b[?25h"), "the cursor is shown again"


def test_live_draws_from_no_thread() -> None:
    import threading

    before = threading.active_count()
    shown = progress.Live(io.StringIO(), width=80)
    shown.begin(1)
    assert threading.active_count() == before
    shown.close()


def test_display_fits() -> None:
    def made(*, terminal: bool, verbosity: int) -> progress.Progress:
        return progress.display(terminal=terminal, verbosity=verbosity, file=io.StringIO(), write_line=lambda _: None)

    assert isinstance(made(terminal=True, verbosity=0), progress.Live)
    assert isinstance(made(terminal=True, verbosity=1), progress.Lines)
    assert isinstance(made(terminal=False, verbosity=0), progress.Lines)
    assert isinstance(made(terminal=True, verbosity=-1), progress.Quiet)
