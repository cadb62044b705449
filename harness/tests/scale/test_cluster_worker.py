"""What a worker does with a batch: records are told as they are made, and what was not begun is left to others."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opscope.base import stored
from opscope.base.digest import file_digest
from opscope.harness.cache import export_folder
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.scale import cluster_worker
from opscope.harness.scale.blobs import mark
from opscope.harness.scale.cluster_worker import _WorkerState
from opscope.harness.tests.ops import FAULTY, add_row

Json = dict[str, Any]


def batch(rows: list[OpRow], where: Callable[[OpRow], Json], **changes: Any) -> Json:
    context = RunContext("r1", "", FAULTY).as_json()
    ops = [{"row": row.model_dump_json(), "attempt": 1, "fresh": False, **where(row)} for row in rows]
    task = {"token": "r1", "batch": "b1", "context": context, "op_timeout": 20.0, "op_memory": None, "ops": ops}
    return task | changes


@pytest.mark.slow
def test_records_arrive_before_an_op_that_hangs_and_the_rest_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_worker, "BATCH_SECONDS", 60.0)
    export = tmp_path / "export"
    rows = [add_row(export, name, b"run:sigstop" if name == "stuck" else b"fine") for name in ("a", "b", "stuck", "c")]
    here, messages = _WorkerState(tmp_path / "worker"), []
    (tmp_path / "worker").mkdir()
    try:
        last = here.climb(
            batch(rows, lambda row: {"folder": str(export)}, op_timeout=1.5),
            lambda answer: messages.append((time.monotonic(), answer["op"])),
        )
        ended = time.monotonic()
        assert [op for _, op in messages] == ["a", "b"]
        assert messages[-1][0] < ended - 1.4
        assert (last["op"], last["batch"]) == ("stuck", "b1")
        assert OpTest.model_validate_json(last["test"]).status == "timeout"
        assert "crash-faulty.txt" in last["files"]
        monkeypatch.setattr(cluster_worker, "BATCH_SECONDS", 0.0)
        again: list[Json] = []
        assert here.climb(batch([rows[0], rows[3]], lambda row: {"folder": str(export)}), again.append) == {}
        assert [answer["op"] for answer in again] == ["a"], "after that long no other is begun"
        slot = here._idle["r1"][0]
        with here.lane(batch([], dict)):
            here.leave("r1")
        assert not slot.folder.exists(), "a lane that was at work when its sweep left ends with its work"
    finally:
        here.leave("r1")


@pytest.mark.slow
def test_an_export_completed_meanwhile_is_read_at_its_new_place_and_verified(tmp_path: Path) -> None:
    making, final = tmp_path / ".making-1", tmp_path / "done"
    rows = [add_row(making, "a"), add_row(making, "b")]
    messages: list[Json] = []
    here = _WorkerState(tmp_path / "worker")
    (tmp_path / "worker").mkdir()

    def where(row: OpRow) -> Json:
        marks = {path: stored.mark_of(making / path) for path in export_folder.files_of(row)}
        return {"folder": str(making), "final": str(final), "expected": marks}

    try:
        tasks = [batch([row], where) for row in rows]
        (making / "values" / "sum.npy").write_bytes(b"another")
        assert here.climb(tasks[0], messages.append)["damaged"][0].startswith("values/")
        add_row(making, "a")
        export_folder.publish(making, final)
        assert here.climb(tasks[1], messages.append) == {}
        assert OpTest.model_validate_json(messages[0]["test"]).status == "success"
    finally:
        here.leave("r1")
    assert stored.expected(making, export_folder.files_of(rows[0])) == {}, "nothing is remembered of a sweep that left"


def test_files_are_missing_until_they_were_sent(tmp_path: Path) -> None:
    row = add_row(tmp_path / "export", "a")
    paths = ["ops/a.mlirbc", "values/left.npy", "values/right.npy", "values/sum.npy"]
    files = {path: file_digest(tmp_path / "export" / path) for path in paths}
    here = _WorkerState(tmp_path / "worker")
    (tmp_path / "worker").mkdir()
    task = batch([row], lambda row: {"files": files})
    try:
        assert here.climb(task, print) == {"missing": list(dict.fromkeys(files.values()))}
        for path, digest in files.items():
            data = (tmp_path / "export" / path).read_bytes()
            assert here.blobs.keep(digest, 0, len(data), data) == ""
        messages: list[Json] = []
        assert here.climb(task, messages.append) == {}
        assert OpTest.model_validate_json(messages[0]["test"]).status == "success"
    finally:
        here.leave("r1")


def test_a_file_is_seen_only_where_it_is_the_same_one(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    expected = mark(tmp_path / "one")
    assert cluster_worker.sees(str(tmp_path / "one"), expected) == "yes"
    (tmp_path / "copy").write_bytes(b"1")
    (tmp_path / "copy").replace(tmp_path / "one")
    assert cluster_worker.sees(str(tmp_path / "one"), expected) == ""
    assert cluster_worker.sees(str(tmp_path / "none"), expected) == ""
