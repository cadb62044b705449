"""What is announced of an export under construction, and who waits for it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from opscope.base import stored
from opscope.base.damage import Damaged
from opscope.harness.cache import export_folder
from opscope.harness.cache.growing_export import Announcer, GrowingExport
from opscope.harness.jobs.goldens import AwaitedGoldens, CutOff, NoGoldens
from opscope.harness.record.records import ManifestHeader, OpRow, Source, Use
from opscope.harness.run.process_plan import as_they_are_made


def row(number: int, *models: str, golden: bool = True) -> OpRow:
    """An op, with its inputs and golden or as the split knows it."""
    op_id = f"{number:016x}"
    known = {"golden": (f"values/{number}.npy",), "sources": (Source(kind="captured", path="values/in.npy"),)}
    return OpRow(
        op_id=op_id,
        op_name="stablehlo.add",
        module=f"ops/{op_id}.mlirbc",
        uses=tuple(Use(model=model, path=f"main/{number}") for model in models),
        **(known if golden else {}),
    )


def header(model: str, folder: Path) -> ManifestHeader:
    return ManifestHeader(models=(model,), export_dirs=(str(folder),), module_ops={model: 2}, structural={model: 0})


def filled(folder: Path, *rows: OpRow) -> Path:
    """An export folder under construction with the files of some ops."""
    for path in {path for each in rows for path in export_folder.files_of(each)}:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(f"what {path} holds".encode())
    return folder


def test_an_op_is_known_once_its_goldens_are_stored_and_its_files_are_checked(tmp_path: Path) -> None:
    first, second = row(1, "m"), row(2, "m")
    folder, path = filled(tmp_path / ".making-1", first, second), tmp_path / "0.jsonl"
    announcer, export = Announcer(path), GrowingExport(path)
    export.look()
    assert (export.manifest, export.row(first.op_id)) == (None, None)
    announcer.split(header("m", tmp_path), [row(1, "m", golden=False), row(2, "m", golden=False)])
    announcer.begin(folder)
    announcer.op(folder, first)
    export.look()
    assert export.manifest is not None
    assert [each.op_id for each in export.manifest[1]] == [first.op_id, second.op_id]
    assert (export.row(first.op_id), export.row(second.op_id)) == (first, None)
    assert stored.checked(folder, first.golden[0]) == folder / first.golden[0]
    (folder / "values/in.npy").write_bytes(b"WHAT values/in.npy holds")
    with pytest.raises(Damaged, match="another content"):
        stored.checked(folder, "values/in.npy")
    with pytest.raises(Damaged, match="was not stored"):
        stored.checked(folder, second.golden[0])
    assert stored.digests_of(folder, first.golden) == [stored.mark_of(folder / first.golden[0]).digest]


def test_a_look_reads_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many workers looks at all models, and needs few of their ops."""
    first, second = row(1, "m"), row(2, "m")
    folder, path = filled(tmp_path / ".making-1", first, second), tmp_path / "0.jsonl"
    announcer, export = Announcer(path), GrowingExport(path)
    announcer.split(header("m", tmp_path), [first, second])
    announcer.begin(folder)
    announcer.op(folder, first)
    announcer.op(folder, second)
    with monkeypatch.context() as patch:
        patch.setattr(OpRow, "model_validate", None)
        export.look()
        assert export.announced_after(0) == [first.op_id, second.op_id]
    assert (export.row(second.op_id), export.announced()) == (second, {first.op_id: first, second.op_id: second})
    export_folder.write_manifest(folder, header("m", tmp_path / "exports"), [first, second])
    export_folder.publish(folder, tmp_path / "exports")
    announcer.complete(tmp_path / "exports")
    export.look()
    with monkeypatch.context() as patch:
        patch.setattr(export_folder, "read_manifest", None)
        assert (export.row(first.op_id), export.row("0" * 16)) == (first, None)
    path.unlink()
    again = GrowingExport(path)
    again.look()
    assert (again.manifest, again.announced()) == (None, {})


def test_a_line_that_a_killed_child_left_unfinished_costs_no_other(tmp_path: Path) -> None:
    first, second = row(1, "m"), row(2, "m")
    folder, path = filled(tmp_path / ".making-1", first, second), tmp_path / "0.jsonl"
    Announcer(path).begin(folder)
    with path.open("ab") as file:
        file.write(b'\n{"digest":"00')
    Announcer(path).begin(folder)  # of the next child
    Announcer(path).op(folder, second)
    export = GrowingExport(path)
    export.look()
    assert export.row(second.op_id) == second


def test_announcements_of_a_dead_remote_walk_keep_their_place(tmp_path: Path) -> None:
    """Another machine begins anew, in a folder of its own."""
    first, second = row(1, "m"), row(2, "m")
    one, other = (filled(tmp_path / name, first, second) for name in (".making-1", ".making-2"))
    path, export = tmp_path / "0.jsonl", GrowingExport(tmp_path / "0.jsonl")
    lines: list[str] = []
    elsewhere = Announcer(path, lines.append)
    for folder, each in ((one, first), (one, second), (other, first)):
        elsewhere.op(folder, each)
    assert not path.exists(), "who hears of it writes it"
    announcer = Announcer(path)
    for folder, texts in ((one, lines[:2]), (other, lines[2:])):
        announcer.begin(folder)
        for text in texts:
            announcer.write(text)
    export.look()
    assert [export.folder_of(each.op_id) for each in (first, second)] == [other, one]
    assert export.row(second.op_id) == second
    assert stored.checked(one, second.golden[0]) == one / second.golden[0]


def test_a_sealed_export_before_its_rename_is_verified_by_announced_digests(tmp_path: Path) -> None:
    first = row(1, "m")
    folder, path = filled(tmp_path / ".making-1", first), tmp_path / "0.jsonl"
    Announcer(path).begin(folder)
    Announcer(path).op(folder, first)
    export = GrowingExport(path)
    export.look()
    assert export.row(first.op_id) == first
    stored.seal(folder, "its name in the end")
    assert stored.checked(folder, first.golden[0]) == folder / first.golden[0]


def test_rows_of_a_complete_export_are_its_own(tmp_path: Path) -> None:
    first, second = row(1, "m"), row(2, "m")
    folder, path = filled(tmp_path / ".making-1", first, second), tmp_path / "0.jsonl"
    announcer, export = Announcer(path), GrowingExport(path)
    announcer.begin(folder)
    export_folder.write_manifest(folder, header("m", tmp_path / "exports"), [first, second])
    export_folder.publish(folder, tmp_path / "exports")
    announcer.complete(tmp_path / "exports")
    export.look()
    assert (export.folder, export.row(second.op_id)) == (tmp_path / "exports", second)


def test_an_op_waits_for_its_goldens_and_its_time_is_counted(tmp_path: Path) -> None:
    first = row(1, "m", "n")
    folder, path = filled(tmp_path / ".making-1", first), tmp_path / "0.jsonl"
    folders = {"m": str(tmp_path / "m"), "n": str(tmp_path / "n")}
    path.touch()
    given_back: list[float] = []
    goldens = AwaitedGoldens({"m": str(path)}, folders, dict(folders), os.getpid(), lambda: given_back.append(1))
    assert goldens.row(row(7, "n")) == row(7, "n"), "of a model that was complete"
    assert not given_back
    announcer = Announcer(path)
    timer = threading.Timer(0.05, lambda: (announcer.begin(folder), announcer.op(folder, row(1, "m"))))
    timer.start()
    assert goldens.row(row(1, "m", "n", golden=False)) == first, "with the uses of both models"
    timer.join()
    assert goldens.waited >= 0.04
    assert given_back, "whoever waits needs no slot"
    assert folders["m"] == str(folder)


def test_an_op_of_two_models_runs_with_the_goldens_of_the_other_where_one_fails(tmp_path: Path) -> None:
    own = row(1, "n")
    folder = filled(tmp_path / ".making-1", own)
    one, other = tmp_path / "0.jsonl", tmp_path / "1.jsonl"
    folders = {"m": "", "n": ""}
    goldens = AwaitedGoldens({"m": str(one), "n": str(other)}, folders, folders, os.getpid())
    Announcer(one).failed("prepare_failed: killed")
    Announcer(other).begin(folder)
    Announcer(other).op(folder, own)
    ready = goldens.row(row(1, "m", "n", golden=False))
    assert [use.model for use in ready.uses] == ["n", "m"], "its files are those of its first use's model"
    assert (ready.golden, folders["n"]) == (own.golden, str(folder))
    Announcer(other).failed("budget")
    with pytest.raises(NoGoldens, match="no goldens of m: prepare_failed: killed"):
        goldens.row(row(2, "m", "n", golden=False))


def test_a_message_that_the_disk_refused_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = row(1, "m")
    folder, path = filled(tmp_path / ".making-1", first), tmp_path / "0.jsonl"
    goldens = AwaitedGoldens({"m": str(path)}, {"m": ""}, {"m": str(tmp_path / "exports")}, os.getpid())
    announcer = Announcer(path)
    announcer.begin(folder)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            announcer.failed("killed")
    with pytest.raises(NoGoldens, match="no goldens of m: what is known of them could not be written"):
        goldens.row(first)
    export_folder.write_manifest(folder, header("m", tmp_path / "exports"), [first])
    export_folder.publish(folder, tmp_path / "exports")
    assert goldens.row(first) == first, "the export was complete all the same"


def test_a_worker_does_not_wait_for_a_dead_controller(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").touch()
    goldens = AwaitedGoldens({"m": str(tmp_path / "0.jsonl")}, {"m": ""}, {"m": ""}, controller=0)
    since = time.monotonic()
    with pytest.raises(NoGoldens, match="has ended"):
        goldens.row(row(1, "m", golden=False))
    assert time.monotonic() - since < 5


def test_ops_are_taken_in_the_order_of_their_making() -> None:
    rows = [row(n, model) for n, model in enumerate(["a", "a", "a", "b", "c", "c", "b"])]
    order = [int(op_id, 16) for op_id in as_they_are_made(rows, 2)]
    assert order == [0, 3, 1, 6, 2, 4, 5], "a and b side by side, then c"


def test_the_budget_ends_the_waiting_and_takes_no_other_models_golden(tmp_path: Path) -> None:
    own = row(1, "n")
    one, other = tmp_path / "0.jsonl", tmp_path / "1.jsonl"
    one.touch()
    Announcer(other).begin(filled(tmp_path / ".making-1", own))
    Announcer(other).op(tmp_path / ".making-1", own)
    goldens = AwaitedGoldens({"m": str(one), "n": str(other)}, {"m": "", "n": ""}, {}, os.getpid())
    since = time.monotonic()
    with pytest.raises(CutOff):
        goldens.row(row(1, "m", "n", golden=False), lambda: time.monotonic() < since + 0.05)
    assert 0.05 <= time.monotonic() - since < 5
    Announcer(one).cut_off("not_run: budget")
    with pytest.raises(CutOff):  # a run with more time would take the golden of m
        goldens.now(row(1, "m", "n", golden=False))
    assert goldens.row(row(1, "n", golden=False), lambda: False) == own, "it is there: a kept verdict needs no time"
