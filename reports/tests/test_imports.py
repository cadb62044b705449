"""What became of a model's import is in the database and in report.html."""

from __future__ import annotations

from pathlib import Path

from opscope.harness.record import store
from opscope.harness.tests import run_folder
from opscope.harness.tests.import_check import test_import_check
from opscope.reports.database.rows import model_rows, modules, read
from opscope.reports.pages import html

DIFFERS = test_import_check.DIFFERS.model_copy(update={"model": "m", "node": "node_0/<Mod>"})


def test_a_model_row_and_a_line_of_the_report(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path / "run")
    stored = store.load_run(folder)
    store.write_manifest(folder, stored.header.model_copy(update={"imports": (DIFFERS,)}), stored.rows)
    published = read(folder)
    (row,) = model_rows(published, modules(published))
    assert (row["import_status"], row["import_text"], row["import_expected"]) == ("import_differs", DIFFERS.text, "")
    (warning,) = html.context(store.load_run(folder))["warnings"][1:]
    assert warning == f"m: {DIFFERS.text}"


def test_a_run_of_before_has_no_import(tmp_path: Path) -> None:
    published = read(run_folder.write(tmp_path / "run"))
    (row,) = model_rows(published, modules(published))
    assert (row["import_status"], row["import_text"]) == ("", "")
