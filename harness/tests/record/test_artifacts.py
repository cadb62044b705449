"""What is stored of diagnostics that are too long or no text, and of times when the clock was set back; files of a run
that are damaged, or that lead out of it."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from opscope.base import damage, stored
from opscope.harness.record import artifacts, store
from opscope.harness.record.artifacts import LIMIT, capped
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, build_test, now
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import Stage, Status
from opscope.harness.run import finish_run
from opscope.harness.tests import run_folder
from opscope.harness.triage import after_run

ROW = OpRow(op_id="0" * 16, op_name="stablehlo.add", module=None)


def test_a_long_diagnostic_is_cut_and_says_so():
    assert capped("short") == "short"
    text = capped("x" * (LIMIT + 1))
    assert text.endswith(f"\n[cut here: {LIMIT:,} of {LIMIT + 1:,} characters]\n")
    assert len(text) < LIMIT + 100


def test_an_error_of_megabytes_and_one_with_a_lone_surrogate_are_kept():
    for error, begins in (("no room for 12 " * 2_000_000, "no room for 12 no room"), ("lone \ud800", "lone \\ud800")):
        test = build_test(
            ROW, RunContext("r", "run"), status=Status.RUN_FAILED, failed_stage=Stage.RUN, started=now(), error=error
        )
        assert test.error_message.startswith(begins)
        assert test.error_signature
        assert OpTest.model_validate_json(test.model_dump_json()) == test


def test_no_op_ends_before_it_began():
    begun = now()
    test = build_test(
        ROW, RunContext("r", "run"), status=Status.SUCCESS, started=begun, ended=begun - timedelta(days=2)
    )
    assert test.test_end_ts == test.test_start_ts == begun


# --- files, their digests, and links that lead out


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has ended, with three artifacts."""
    damage.forget()
    folder = run_folder.write(tmp_path / "run")
    (folder / "artifacts" / "models").mkdir(parents=True)
    (folder / "artifacts" / "models" / "m.txt").write_text("Traceback")
    for op_id, name in zip(run_folder.NAMES, ("compile.txt", "deep/ir.mlir"), strict=False):
        assert artifacts.write(folder, op_id, name, f"why {name}") == f"artifacts/{op_id}/{name}"
    end(folder)
    return folder


def end(folder: Path) -> None:
    store.write_run(folder, store.read_run(folder).model_copy(update={"ended": now(), "outcome": "complete"}))


def damages(folder: Path) -> list[str]:
    """What is damaged, as `opscope show` finds it."""
    damage.forget()
    lines: list[str] = []
    damage.show_by(lines.append)
    finish_run.stored_page(folder)
    damage.forget()
    return [line.removeprefix(f"{folder}/") for line in lines if "damaged" in line]


def test_every_artifact_of_a_run_that_ended_is_checked(run: Path) -> None:
    assert damages(run) == []
    first, second, _ = run_folder.NAMES
    path = run / "artifacts" / first / "compile.txt"
    for content, got in ((b"why compile.tyt", "another content"), (b"why", "3 bytes instead of 15"), (None, "no such")):
        path.unlink() if content is None else path.write_bytes(content)
        (line,) = damages(run)
        assert line.startswith(f"artifacts/{first}/compile.txt: damaged ({got}")
        assert line.endswith("; its text may be wrong")
    (run / "artifacts" / second / "deep" / "ir.mlir").write_text("x")
    assert len(damages(run)) == 2
    damage.forget()
    artifacts.check(run, "run-1", second)
    assert damage.losses() == 1
    shutil.rmtree(run / "artifacts")  # cleared away
    assert damages(run) == []


def test_the_list_of_digests_is_checked_as_well(run: Path) -> None:
    path = run / artifacts.FILE
    before = path.read_bytes()
    path.write_bytes(before.replace(b"compile.txt", b"compile.tyt"))
    assert damages(run) == ["artifacts.json: damaged (another content); the artifacts cannot be checked"]
    stored.write_json(path, {"run_id": "another", "files": {}})
    assert damages(run) == ["artifacts.json: damaged (that of another); the artifacts cannot be checked"]
    stored.write_json(path, {"run_id": "run-1", "files": [1]})
    assert damages(run) == ["artifacts.json: damaged (no digests of artifacts); the artifacts cannot be checked"]


def test_a_run_that_goes_on_is_checked_first_and_sealed_again(run: Path) -> None:
    first = next(iter(run_folder.NAMES))
    (run / "artifacts" / first / "compile.txt").write_text("damaged")
    damage.forget()
    artifacts.unseal(run, "run-1")
    assert damage.losses() == 1
    artifacts.write(run, first, "compile.txt", "another attempt")
    assert damages(run) == []  # killed here, it has no digests
    end(run)
    assert damages(run) == []
    (run / "artifacts" / first / "compile.txt").write_text("damaged")
    assert len(damages(run)) == 1


def test_folders_in_which_a_user_works_are_the_users(run: Path) -> None:
    folder = run / "artifacts" / next(iter(run_folder.NAMES)) / "repro-xla"
    folder.mkdir()
    (folder / "run.sh").write_text("pytest")
    end(run)
    (folder / "run.sh").write_text("pytest -x")
    assert damages(run) == []


def test_nothing_is_written_or_read_through_a_link(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("theirs")
    first, second, _ = run_folder.NAMES
    (run / "artifacts" / first / "link.txt").symlink_to(secret)
    (run / "artifacts" / first / "out").symlink_to(tmp_path)
    for name in ("link.txt", "out/secret", "../../../secret"):
        assert artifacts.write(run, first, name, "ours") is None
        with pytest.raises(OSError, match="leads out"):
            artifacts.read(run, f"artifacts/{first}/{name}", "run-1")
    shutil.rmtree(run / "artifacts" / second)
    (run / "artifacts" / second).symlink_to(tmp_path)
    assert artifacts.write(run, second, "secret", "ours") is None
    test = run_folder.record_of(run, second, Status.COMPILE_FAILED, failed_stage=Stage.COMPILE)
    with pytest.raises(InputError, match="a path that leads out of its folder, or by a link; try --out DIR"):
        after_run.place_to_write(run, test)
    shutil.rmtree(run / "journal")
    (run / "journal").symlink_to(tmp_path)
    with pytest.raises(InputError, match="leads out"), store.Journal(run, "secret") as journal:
        journal.append(test)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "secret"]
    assert secret.read_text() == "theirs"


def test_what_decides_something_is_read_only_as_it_was_stored(run: Path) -> None:
    folder = f"artifacts/{next(iter(run_folder.NAMES))}"
    assert artifacts.read(run, f"{folder}/compile.txt", "run-1") == b"why compile.txt"
    (run / folder / "new.txt").write_bytes(b"came later")
    assert artifacts.read(run, f"{folder}/new.txt", "run-1") == b"came later"
    for content in (b"why compile.tyt", b"why"):
        (run / folder / "compile.txt").write_bytes(content)
        with pytest.raises(damage.Damaged, match="got another content"):
            artifacts.read(run, f"{folder}/compile.txt", "run-1")
