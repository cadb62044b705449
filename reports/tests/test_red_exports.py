"""A run that ends with exit code 1 is red in every export, whatever made it red."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from click.testing import CliRunner

from opscope.harness.record import store
from opscope.harness.record.records import ImportCheck, ModelFailure, OpTest
from opscope.harness.record.stages import FAILED, ImportStatus, ModelStatus, Status
from opscope.harness.tests import run_folder
from opscope.reports.commands.ask import export
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.exports import export_csv, export_junit, export_optest
from opscope.reports.exports.exported import Exported, read
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh

FORMATS: dict[str, Callable[[Exported], str]] = {
    "optest-json": lambda run: export_optest.render(run, 7),
    "junit": export_junit.render,
    "builder-xml": lambda run: export_junit.render(run, for_builder=True),
    "csv": export_csv.render,
}
"""Format -> how the command writes it for job 7."""


def with_header(folder: Path, **changed: object) -> None:
    stored = store.load_run(folder)
    store.write_manifest(folder, stored.header.model_copy(update=changed), stored.rows)


def with_first_op(folder: Path, **changed: object) -> None:
    test = store.load_run(folder).tests[0]
    with store.Journal(folder, "again") as journal:
        journal.append(test.model_copy(update={"attempt": test.attempt + 1, **changed}))


def with_whole_model(folder: Path) -> None:
    test = store.load_run(folder).tests[0]
    changed = {"op_id": "0" * 16, "op_name": "model", "status": Status.RUN_FAILED, "success": False}
    (folder / store.WHOLE_FILE).write_bytes(store.line_of(OpTest.model_validate({**dict(test), **changed})))


def import_check(status: ImportStatus, expected: str = "") -> ImportCheck:
    return ImportCheck(
        model="m",
        framework="onnx",
        status=status,
        importer="a 1",
        held_to="b 2",
        error="4 of 6 differ",
        expected=expected,
    )


def failure(status: ModelStatus) -> ModelFailure:
    return ModelFailure(model="n", framework="torch", status=status, error="it raised")


REASONS: dict[str, Callable[[Path], None]] = {
    "import differs": lambda folder: with_header(folder, imports=(import_check(ImportStatus.DIFFERS),)),
    "import agrees": lambda folder: with_header(
        folder, imports=(import_check(ImportStatus.AGREES, "unexpected pass: bug"),)
    ),
    **{
        status: lambda folder, status=status: with_header(folder, failed=(failure(status),))
        for status in (ModelStatus.BUILD_FAILED, ModelStatus.EXPORT_FAILED, ModelStatus.PREPARE_FAILED)
    },
    **{
        status: lambda folder, status=status: with_first_op(folder, status=status, success=False)
        for status in sorted(FAILED)
    },
    "unexpected pass": lambda folder: with_first_op(folder, expected="unexpected pass: bug"),
    "a model as one program": with_whole_model,
}
GREEN: dict[str, Callable[[Path], None]] = {
    "nothing": lambda folder: None,
    "an expected difference": lambda folder: with_header(
        folder, imports=(import_check(ImportStatus.DIFFERS, "bug: torch-mlir"),)
    ),
    "a missing framework": lambda folder: with_header(folder, failed=(failure(ModelStatus.FRAMEWORK_MISSING),)),
    "an expected failure": lambda folder: with_first_op(
        folder, status=Status.COMPILE_FAILED, success=False, expected="bug: a pass"
    ),
}


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which every op is right."""
    folder = run_folder.write(tmp_path_factory.mktemp("right") / "run")
    run = store.load_run(folder)
    header = run.header.model_copy(update={"module_ops": {"m": 5}})
    store.write_manifest(folder, header, [row for row in run.rows if not row.unsplittable])
    for test in store.load_run(folder).tests:
        right = {"status": Status.SUCCESS, "success": True, "skipped": False, "error_message": None, "expected": ""}
        with store.Journal(folder, "right") as journal:
            journal.append(test.model_copy(update={"attempt": test.attempt + 1, **right}))
    return folder


def red(text: str, kind: str) -> bool:
    """Whether an export says that its run failed."""
    if kind == "optest-json":
        report = json.loads(text)
        return report["exitcode"] == 1 and report["tests"][0]["outcome"] == "failed"
    if kind == "csv":
        return any(row["is_failure"] == "True" for row in csv.DictReader(io.StringIO(text)))
    suite = Xml.fromstring(text)[0]
    return int(suite.attrib["failures"]) + int(suite.attrib["errors"]) > 0


def exports(folder: Path, tmp_path: Path, published: bool = True) -> dict[tuple[str, str], str]:
    """(format, where from) -> the text."""
    url, names = fresh(tmp_path / "results.sqlite"), {"folder": str(folder)}
    if published:
        publish(folder, url)
        names["database"] = store.read_run(folder).run_id
    texts = {}
    for where, name in names.items():
        with open_runs(url, named=(name,)) as runs:
            exported = read(runs, name)
        texts |= {(kind, where): render(exported) for kind, render in FORMATS.items()}
    return texts


def test_the_command_writes_what_is_tested_here(right: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(right, tmp_path / "run"))
    REASONS["unexpected pass"](folder)
    with open_runs(None, named=(str(folder),)) as runs:
        exported = read(runs, str(folder))
    texts = {kind: render(exported) for kind, render in FORMATS.items()}
    assert len({*texts.values()}) == len(FORMATS)
    for kind, text in texts.items():
        words = (str(folder), "--format", kind, "--job-id", "7", "-o", "-")
        assert CliRunner().invoke(export, words, catch_exceptions=False).output == text, kind


SILENT = {("builder-xml", "unexpected pass"), ("builder-xml", "import agrees"), ("builder-xml", Status.NO_GOLDEN)}
"""What the reader of `builder-xml` has no word for (export_junit.py)."""


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_for_exit_code_1_is_red_in_every_export(right: Path, tmp_path: Path, reason: str) -> None:
    folder = Path(shutil.copytree(right, tmp_path / "run"))
    REASONS[reason](folder)
    for (kind, where), text in exports(folder, tmp_path, reason not in FAILED).items():
        assert red(text, kind) is ((kind, reason) not in SILENT), (kind, where)


@pytest.mark.parametrize("why", GREEN)
def test_a_run_with_exit_code_0_is_green(right: Path, tmp_path: Path, why: str) -> None:
    folder = Path(shutil.copytree(right, tmp_path / "run"))
    GREEN[why](folder)
    for (kind, where), text in exports(folder, tmp_path).items():
        literal = kind == "builder-xml" and why.startswith("an expected")  # the reader knows no expected failures
        assert red(text, kind) is literal, (kind, where)


def test_ops_that_were_not_reached_are_rows(right: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(right, tmp_path / "run"))
    shutil.rmtree(folder / store.JOURNAL_DIR)
    texts = exports(folder, tmp_path)
    for where in ("folder", "database"):
        rows = list(csv.DictReader(io.StringIO(texts["csv", where])))
        assert {row["status"] for row in rows} == {"not_run"}
        assert json.loads(texts["optest-json", where])["tests"][0]["user_properties"][-2] == {
            "successful_operations": "0"
        }
