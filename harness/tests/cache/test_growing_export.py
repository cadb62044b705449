"""What is announced of an export under construction, and who waits for it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from opscope.base import stored
from opscope.base.damage import Damaged
from opscope.harness.cache import export_folder, growing_export
from opscope.harness.cache.growing_export import Announcer, GrowingExport
from opscope.harness.engine.goldens import AwaitedGoldens, CutOff, NoGoldens
from opscope.harness.prepare.turn import Stopped
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


def growing(folder: Path | None = None, *rows: OpRow) -> tuple[Announcer, GrowingExport]:
    """A child's side and the other one, which knows of some ops in a folder."""
    export = GrowingExport()
    announcer = Announcer(export.take)
    if folder is not None:
        announcer.begin(folder)
        for each in rows:
            announcer.op(folder, each)
    return announcer, export


def awaited(exports: dict[str, GrowingExport], folders: dict[str, str], final: dict[str, str]) -> AwaitedGoldens:
    return AwaitedGoldens(exports, threading.Condition(), folders, final)


def test_an_op_is_known_once_its_goldens_are_stored_and_its_files_are_checked(tmp_path: Path) -> None:
    first, second = row(1, "m"), row(2, "m")
    folder = filled(tmp_path / ".making-1", first, second)
    announcer, export = growing()
    assert (export.manifest, export.row(first.op_id)) == (None, None)
    announcer.split(header("m", tmp_path), [row(1, "m", golden=False), row(2, "m", golden=False)])
    announcer.begin(folder)
    announcer.op(folder, first)
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


def test_a_split_comes_in_parts_and_is_known_once_all_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message has a limit, and a model may have any number of ops."""
    monkeypatch.setattr(growing_export, "PART", 2)
    rows, texts = [row(number, "m", golden=False) for number in range(5)], list[str]()
    Announcer(texts.append).split(header("m", Path("d")), rows)
    export = GrowingExport()
    for text in texts:
        assert export.manifest is None
        export.take(text)
    assert export.manifest == (header("m", Path("d")), rows)
    for text in texts[:2]:  # of a child in the place of one that died
        export.take(text)
    assert export.manifest == (header("m", Path("d")), rows)


def test_a_split_of_a_child_that_died_is_begun_anew() -> None:
    export, texts = GrowingExport(), list[str]()
    Announcer(texts.append).split(header("m", Path("d")), [row(number, "m") for number in range(1500)])
    for text in (texts[0], texts[1], *texts):
        export.take(text)
    assert export.manifest is not None
    assert len(export.manifest[1]) == 1500


def test_whoever_waits_hears_of_all_that_becomes_known(tmp_path: Path) -> None:
    heard: list[bool] = []
    export = GrowingExport(lambda: heard.append(export.ended))
    announcer = Announcer(export.take)
    announcer.begin(filled(tmp_path / "making", row(1, "m")))
    announcer.op(tmp_path / "making", row(1, "m"))
    export.fails("killed")
    assert heard == [False, False, True]


def test_announcements_of_a_dead_remote_walk_keep_their_place(tmp_path: Path) -> None:
    """Another machine begins anew, in a folder of its own."""
    first, second = row(1, "m"), row(2, "m")
    one, other = (filled(tmp_path / name, first, second) for name in (".making-1", ".making-2"))
    announcer, export = growing(one, first, second)
    announcer.begin(other)
    announcer.op(other, first)
    assert [export.folder_of(each.op_id) for each in (first, second)] == [other, one]
    assert export.announced_after(0) == [first.op_id, second.op_id], "each once"
    assert export.row(second.op_id) == second
    assert stored.checked(one, second.golden[0]) == one / second.golden[0]


def test_a_sealed_export_before_its_rename_is_verified_by_announced_digests(tmp_path: Path) -> None:
    first = row(1, "m")
    folder = filled(tmp_path / ".making-1", first)
    _, export = growing(folder, first)
    assert export.row(first.op_id) == first
    stored.seal(folder, "its name in the end")
    assert stored.checked(folder, first.golden[0]) == folder / first.golden[0]


def test_rows_of_a_complete_export_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = row(1, "m"), row(2, "m")
    folder = filled(tmp_path / ".making-1", first, second)
    _, export = growing(folder)
    export_folder.write_manifest(folder, header("m", tmp_path / "exports"), [first, second])
    export_folder.publish(folder, tmp_path / "exports")
    export.is_complete(tmp_path / "exports")
    monkeypatch.setattr(export_folder, "read_manifest", None)
    assert (export.folder, export.row(second.op_id)) == (tmp_path / "exports", second)
    assert (export.row(first.op_id), export.row("0" * 16)) == (first, None)


def test_an_op_waits_for_its_goldens_and_its_time_is_counted(tmp_path: Path) -> None:
    first = row(1, "m", "n")
    folder = filled(tmp_path / ".making-1", first)
    folders = {"m": str(tmp_path / "m"), "n": str(tmp_path / "n")}
    announcer, export = growing()
    goldens = awaited({"m": export}, folders, dict(folders))
    assert goldens.row(row(7, "n")) == row(7, "n"), "of a model that was complete"
    timer = threading.Timer(0.05, lambda: (announcer.begin(folder), announcer.op(folder, row(1, "m"))))
    timer.start()
    assert goldens.row(row(1, "m", "n", golden=False)) == first, "with the uses of both models"
    timer.join()
    assert goldens.waited >= 0.04
    assert folders["m"] == str(folder)


def test_an_op_of_two_models_runs_with_the_goldens_of_the_other_where_one_fails(tmp_path: Path) -> None:
    own = row(1, "n")
    folder = filled(tmp_path / ".making-1", own)
    (_, one), (_, other) = growing(), growing(folder, own)
    folders = {"m": "", "n": ""}
    goldens = awaited({"m": one, "n": other}, folders, folders)
    one.fails("prepare_failed: killed")
    ready = goldens.row(row(1, "m", "n", golden=False))
    assert [use.model for use in ready.uses] == ["n", "m"], "its files are those of its first use's model"
    assert (ready.golden, folders["n"]) == (own.golden, str(folder))
    other.fails("budget")
    with pytest.raises(NoGoldens, match="no goldens of m: prepare_failed: killed"):
        goldens.row(row(2, "m", "n", golden=False))


def test_an_export_that_has_moved_and_of_which_nobody_has_spoken_yet_is_used_once_it_is_complete(
    tmp_path: Path,
) -> None:
    first = row(1, "m")
    folder = filled(tmp_path / ".making-1", first)
    _, export = growing(folder, first)
    goldens = awaited({"m": export}, {"m": ""}, {"m": str(tmp_path / "exports")})
    export_folder.write_manifest(folder, header("m", tmp_path / "exports"), [first])
    export_folder.publish(folder, tmp_path / "exports")
    assert goldens.row(first) == first


def test_ops_are_taken_in_the_order_of_their_making() -> None:
    rows = [row(n, model) for n, model in enumerate(["a", "a", "a", "b", "c", "c", "b"])]
    order = [int(op_id, 16) for op_id in as_they_are_made(rows, 2)]
    assert order == [0, 3, 1, 6, 2, 4, 5], "a and b side by side, then c"


def test_the_budget_ends_the_waiting_and_takes_no_other_models_golden(tmp_path: Path) -> None:
    own = row(1, "n")
    (_, one), (_, other) = growing(), growing(filled(tmp_path / ".making-1", own), own)
    goldens = awaited({"m": one, "n": other}, {"m": "", "n": ""}, {})
    since = time.monotonic()
    with pytest.raises(CutOff):
        goldens.row(row(1, "m", "n", golden=False), lambda: time.monotonic() < since + 0.05)
    assert 0.05 <= time.monotonic() - since < 30
    one.fails("not_run: budget", cut_off=True)
    with pytest.raises(CutOff):  # a run with more time would take the golden of m
        goldens.now(row(1, "m", "n", golden=False))
    assert goldens.row(row(1, "n", golden=False), lambda: False) == own, "it is there: a kept verdict needs no time"


def test_a_run_that_is_to_end_waits_no_longer() -> None:
    def stopped() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        awaited({"m": GrowingExport()}, {}, {}).row(row(1, "m", golden=False), check=stopped)
