"""Damage in a run folder is named and the rest is read; a run folder has one writer; a cache can be moved."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.base import damage, stored
from opscope.base.damage import Damaged
from opscope.base.tests.resealed import reseal
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import Claims, in_use
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import now
from opscope.harness.record.stages import Status
from opscope.harness.tests.ops import add_row
from opscope.harness.tests.record.test_store import header, record, result

LINES = ["a", "b", "c"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three ops that has ended."""
    damage.forget()
    rows = [add_row(tmp_path / "export", name) for name in LINES]
    store.write_manifest(tmp_path, header(tmp_path), rows)
    with store.Journal(tmp_path, "main") as journal:
        for row in rows:
            journal.append(result(row))
    store.write_run(tmp_path, record(ended=now(), outcome="complete"))
    return tmp_path


def ids(run: Path) -> list[str]:
    """The ops with a record."""
    return [test.op_id for test in store.load_run(run).tests]


def test_a_whole_run_has_no_damage(run: Path) -> None:
    assert ids(run) == LINES
    assert damage.losses() == 0


def test_a_flip_in_a_record_loses_that_record(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "journal" / "main.jsonl"
    path.write_text(path.read_text().replace('"status":"success"', '"status":"skipped"', 1))
    assert ids(run) == ["b", "c"]
    assert capsys.readouterr().err == f"opscope: {path}:1: damaged (another content); the rest is read\n"


def test_a_flip_in_a_row_loses_that_row(run: Path) -> None:
    path = run / "manifest.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"op_id":"b"', b'"op_id":"d"'))
    assert [row.op_id for row in store.load_run(run).rows] == ["a", "c"]
    assert damage.losses() == 1


@pytest.mark.parametrize("keep", [0, 1, 2])
@pytest.mark.parametrize("torn", [0, 5])
def test_lines_that_are_gone_from_a_run_that_ended_are_noticed(run: Path, keep: int, torn: int) -> None:
    for name in ("journal/main.jsonl", "manifest.jsonl"):
        damage.forget()
        path = run / name
        lines = path.read_bytes().splitlines(keepends=True)
        kept = keep + (name == "manifest.jsonl")
        path.write_bytes(b"".join(lines[:kept]) + lines[-1][:torn])
        store.load_run(run)
        assert damage.losses() >= 1, name
        path.write_bytes(b"".join(lines))


def test_a_segment_that_is_gone_is_noticed(run: Path) -> None:
    (run / "journal" / "main.jsonl").unlink()
    assert ids(run) == []
    assert damage.losses() == 1


def test_a_torn_last_line_of_a_run_that_was_killed_is_no_damage(run: Path) -> None:
    store.write_run(run, record())
    path = run / "journal" / "main.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    assert ids(run) == ["a", "b"]
    assert damage.losses() == 0


@pytest.mark.parametrize("name", ["run.json", "manifest.jsonl"])
def test_a_run_with_a_damaged_first_line_is_refused(run: Path, name: str) -> None:
    data = (run / name).read_bytes()
    for at in range(0, data.index(b"\n"), 7):
        (run / name).write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(InputError, match=name):
            store.load_run(run)


def test_a_run_from_before_is_read_and_said_to_be_unverified(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in [*run.rglob("*.jsonl"), run / "run.json"]:
        values = (
            [json.loads(line) for line in path.read_text().splitlines()]
            if path.suffix == ".jsonl"
            else [json.loads(path.read_text())]
        )
        old = [{name: item for name, item in value.items() if name not in ("digest", "lines")} for value in values]
        path.write_text("".join(json.dumps(value) + "\n" for value in old))
    assert ids(run) == LINES
    assert damage.losses() == 0
    assert capsys.readouterr().err.count("unverified") == 1


def test_an_op_that_runs_again_adds_lines(run: Path) -> None:
    with store.Journal(run, "main") as journal:
        journal.append(result(store.load_run(run).rows[0], Status.TIMEOUT, attempt=2))
    assert store.load_run(run).tests[0].status is Status.TIMEOUT
    assert damage.losses() == 0


def test_a_small_file_that_is_damaged_is_refused(tmp_path: Path) -> None:
    store.write_json(tmp_path / "selection.json", {"ops": ["a"]})
    assert store.read_json(tmp_path / "selection.json", "ids") == {"ops": ["a"]}
    changed = (tmp_path / "selection.json").read_text().replace('"a"', '"b"')
    (tmp_path / "selection.json").write_text(changed)
    with pytest.raises(InputError, match=r"selection\.json: expected ids, got another content"):
        store.read_json(tmp_path / "selection.json", "ids")
    assert store.read_json(tmp_path / "none.json", "ids") is None


def test_a_line_with_a_new_digest_is_read(run: Path) -> None:
    reseal(run / "journal" / "main.jsonl", lambda line: line.replace('"attempt":1', '"attempt":3'))
    assert {test.attempt for test in store.load_run(run).tests} == {3}


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from opscope.harness.cache.claims import Claims; c = Claims();"
        "print(c.hold_alone(Path(sys.argv[1])), flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    with Claims() as mine, subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "True\n"
        assert not mine.hold_alone(tmp_path)
        assert in_use(tmp_path)
        child.kill()
        child.wait()
        assert mine.hold_alone(tmp_path)  # what a killed process held is free
        assert in_use(tmp_path)
    assert not in_use(tmp_path)


def test_an_export_folder_says_where_it_is_now(tmp_path: Path) -> None:
    place = tmp_path / "cache" / "exports" / "key"
    place.mkdir(parents=True)
    row = add_row(place, "a")
    export_folder.write_manifest(place, header("/somewhere/else"), [row])
    stored.seal(place, "key")
    moved, rows = export_folder.read_manifest(place)
    assert moved.export_dirs == (str(place),)
    assert rows == [row]
    relative = export_folder.below(tmp_path / "cache", moved)
    assert relative.export_dirs == ("exports/key",)
    moved = (tmp_path / "cache").rename(tmp_path / "moved")
    there = export_folder.located(relative, tmp_path / "cache", moved)
    assert there.export_dirs == (str(moved / "exports" / "key"),)
    both = relative.model_copy(update={"models": ("lost", "m"), "export_dirs": ("exports/none", "exports/key")})
    there = export_folder.located(both, tmp_path / "cache", moved)
    assert there.export_dirs == (str(tmp_path / "cache/exports/none"), str(moved / "exports/key")), "each by itself"
    assert export_folder.those_complete(there).models == ("m",)
    assert export_folder.intact(moved / "exports" / "key")
    (moved / "exports" / "key" / "manifest.jsonl").write_bytes(b"")
    damage.forget()
    assert not export_folder.intact(moved / "exports" / "key")
    assert not (moved / "exports" / "key").exists()  # it is made again
    with pytest.raises(Damaged):
        stored.check_sizes(moved / "exports" / "key")
