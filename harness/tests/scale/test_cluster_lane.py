"""Where the controller finds the files of an op that it sends, while the export that has them is being completed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opscope.base import stored
from opscope.base.damage import Damaged
from opscope.base.digest import file_digest
from opscope.harness.cache import export_folder
from opscope.harness.lanes.lane import LaneConfig
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow
from opscope.harness.scale.batches import Op
from opscope.harness.scale.cluster import ClusterLane
from opscope.harness.tests.ops import add_row


class OneWorker:
    """A worker that has been sent nothing; `looks` is what happens meanwhile when it is asked what it sees."""

    def __init__(self, seen: bool, looks: Callable[[], None] = lambda: None) -> None:
        self.seen, self.looks = seen, looks

    def sees(self, *_: Any) -> bool:
        self.looks()
        return self.seen

    def has(self, *_: Any) -> bool:
        return False


class Export:
    """An export under construction with one op, and a lane that sends it."""

    def __init__(self, folder: Path) -> None:
        self.making, self.final = folder / ".making-1", folder / "done"
        self.row: OpRow = add_row(self.making, "a")
        self.paths = export_folder.files_of(self.row)
        self.marks = {path: stored.mark_of(self.making / path) for path in self.paths}
        stored.expect(self.making, self.marks)
        config = LaneConfig(RunContext("r1", str(folder / "run")), {"toy": str(self.making)})
        config.final_dirs["toy"] = str(self.final)
        self.lane = ClusterLane("tcp://nowhere", config)

    def files(self, worker: OneWorker) -> Any:
        """What is sent, and the content of small files."""
        self.lane._connection = worker
        small: dict[str, bytes] = {}
        return self.lane._files(Op(self.row, 1, folder=str(self.making)), "w", small), small

    def complete(self) -> None:
        if self.making.is_dir():
            export_folder.publish(self.making, self.final)


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path)


def test_a_worker_that_sees_an_export_gets_its_files_and_final_place(export: Export) -> None:
    sent, small = export.files(OneWorker(seen=True))
    assert (sent["folder"], sent["final"], small) == (str(export.making), str(export.final), {})
    assert sent["expected"] == export.marks
    assert export.files(OneWorker(seen=True, looks=export.complete))[0]["folder"] == str(export.making), (
        "it looks again"
    )
    assert export.files(OneWorker(seen=True))[0] == {
        "folder": str(export.final),
        "final": str(export.final),
        "expected": {},
    }


def test_files_that_are_moved_while_they_are_read_are_read_at_their_new_place(export: Export) -> None:
    digests = {path: file_digest(export.making / path) for path in export.paths}
    sent, small = export.files(OneWorker(seen=False, looks=export.complete))
    assert (sent, set(small)) == ({"files": digests}, set(digests.values()))


def test_files_are_verified_by_announced_digests(export: Export) -> None:
    (export.making / export.paths[0]).write_bytes(b"another")
    with pytest.raises(Damaged):
        export.files(OneWorker(seen=False))
