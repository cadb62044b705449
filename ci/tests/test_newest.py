"""What `make newest` says of a run that breaks."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from rich.console import Console

from ci import newest
from opscope.harness.page import summary
from opscope.harness.record.records import ModelFailure
from opscope.harness.record.stages import ModelStatus
from opscope.harness.run import finish_run
from opscope.harness.tests import run_folder


def printed(page: summary.Run) -> str:
    printed = io.StringIO()
    summary.show(page, Console(file=printed, width=200, highlight=False))
    return printed.getvalue()


def test_a_run_that_breaks_says_by_what(tmp_path: Path) -> None:
    page = finish_run.stored_page(run_folder.write(tmp_path / "run"))
    assert newest.what_broke(printed(page)) == "compile_failed at compile: no [dots] here"
    lost = ModelFailure(model="m", framework="keras", status=ModelStatus.EXPORT_FAILED, error="TypeError: no `shape`")
    unprepared = dataclasses.replace(page, tests=[], header=page.header.model_copy(update={"failed": (lost,)}))
    assert newest.what_broke(printed(unprepared)) == "m  export_failed: TypeError: no `shape`"
    assert newest.what_broke(printed(dataclasses.replace(page, tests=[]))) == ""
