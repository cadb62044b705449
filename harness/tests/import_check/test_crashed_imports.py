"""A model that its framework does not survive is red, although nothing of it can be compared."""

from __future__ import annotations

from pathlib import Path

from opscope.base.children.ending import Cause, Ending
from opscope.base.tests.each import each
from opscope.harness.limitations.import_rows import judged_import, new_rows
from opscope.harness.limitations.limitations import NewRows, now
from opscope.harness.page.summary import import_sections, imports_line
from opscope.harness.record.records import ImportCheck
from opscope.harness.record.stages import ImportStatus
from opscope.models.frontends import own_results

CRASHED = ImportCheck(
    model="m", framework="jax", status=ImportStatus.CRASHED, error="its own framework: killed by SIGSEGV"
)


@each(
    ("ending", "crashed"),
    [
        (Ending(Cause.SIGNAL, "killed by SIGSEGV", 11), True),
        (Ending(Cause.SIGNAL, "killed by SIGABRT", 6), True),
        (Ending(Cause.SIGNAL, "killed by SIGKILL", 9), False),
        (Ending(Cause.SIGNAL, "killed by SIGTERM", 15), False),
        (Ending(Cause.EXIT, "left with exit code 11", 11), False),
        (Ending(Cause.MEMORY, "took too much", 9), False),
    ],
)
def test_a_crash_is_a_signal_that_nobody_sent(ending: Ending, crashed: bool) -> None:
    assert ending.crashed is crashed


def test_a_crash_is_red_and_excused_like_a_difference() -> None:
    assert CRASHED.fails_run
    assert CRASHED.text == "import_crashed: its own framework: killed by SIGSEGV"
    rows = new_rows([CRASHED], NewRows("bug", now()))
    assert len(rows) == 1
    excused = judged_import(CRASHED, rows)
    assert not excused.fails_run
    assert excused.expected.startswith("bug: ")


def test_a_crash_is_counted_and_shown() -> None:
    assert imports_line([CRASHED]) == "1 import = 1 crashed its framework"
    [(_, _, checks)] = import_sections([CRASHED])
    assert checks == [CRASHED]


def test_a_crash_is_noted_beside_the_export(tmp_path: Path) -> None:
    own_results.note(tmp_path, 0, "killed by SIGSEGV", True)
    assert own_results.read(tmp_path)[0]["crashed"] is True
