"""The controller's side of a walk elsewhere, with workers that answer what a test says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from opscope.base import stored
from opscope.harness.cache import export_folder
from opscope.harness.cache.growing_export import Announcer, GrowingExport
from opscope.harness.prepare.allowance import Allowance
from opscope.harness.prepare.make_folder import Making, Unpreparable
from opscope.harness.prepare.preparation import Preparation, Task
from opscope.harness.prepare.turn import Stopped
from opscope.harness.record.errors import InputError
from opscope.harness.scale import walk_worker, walks
from opscope.harness.scale.walks import Walks
from opscope.harness.tests.cache.test_growing_export import filled, header, row

Json = dict[str, Any]


class Workers:
    """A cluster of workers with one device each; `answer` is what one does with a walk."""

    def __init__(self, walks: Walks, names: str, answer: Callable[[Json, Callable[[Json], None]], Json | None]) -> None:
        self.walks, self.answer = walks, answer
        self.names, self.devices = list(names), 1
        self.asked: list[str] = []
        self.called: list[str] = []
        self.files: dict[str, bytes] = {}
        """What came with the last walk, by its digest."""
        self.content: Callable[[str, Sequence[str]], list[bytes]] = lambda key, paths: []
        """What a walk has made."""

    def slots(self) -> dict[str, int]:
        return dict.fromkeys(self.names, self.devices)

    def alive(self, worker: str) -> bool:
        return worker in self.names

    def note(self, *_: Any) -> None:
        """Nobody asks."""

    def has(self, *_: Any) -> bool:
        return False

    def submit(
        self, function: Any, sent: tuple[str, Any], key: str, worker: str, priority: int = 0, devices: int = 1
    ) -> Future[str]:
        message, files = sent
        self.asked.append(worker)
        self.files = files
        task, future = json.loads(message), Future[str]()
        assert (task["walk"], task["processes"]) == (key, devices)

        def tell(event: Json) -> None:
            self.walks._take((0.0, json.dumps({"walk": key, "event": event})))

        answer = self.answer(task, tell)
        if answer is None:
            self.names.remove(worker)  # it has died
        elif answer:
            tell({"event": walk_worker.END})
            future.set_result(json.dumps(answer))
        return future

    def call_on(self, worker: str, function: Any, *arguments: Any) -> list[bytes] | None:
        self.called.append(function.__name__)
        return self.content(*arguments) if function is walk_worker.small_files else None


class Model:
    """A model that is to be walked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.growing = folder, GrowingExport()
        (folder / "m.mlir").write_text("text")
        request = Preparation(("m.mlir",), cache_dir=str(folder))
        self.task = Task(
            "m",
            str(folder / "m.mlir"),
            None,
            "",
            str(folder / "exports"),
            request,
            kept=str(folder / "0.split"),
        )
        self.rows = [row(1, "m"), row(2, "m")]
        self.making: list[Path] = []

    def temporary(self) -> Path:
        self.making.append(filled(self.folder / f".making-{len(self.making)}", *self.rows))
        return self.making[-1]

    def walked(self, walks: Walks, allowance: Allowance | None = None) -> bool:
        making = Making(self.task, allowance or Allowance(60.0), lambda event: None, growing=self.growing)
        return walks.walk(making, "", self.temporary)

    def announce(self, tell: Callable[[Json], None], number: int) -> None:
        announcer = Announcer(lambda text: tell({"event": "announce", "text": text}))
        announcer.op(self.making[-1], self.rows[number])

    def complete(self) -> None:
        folder = Path(self.task.folder)
        export_folder.write_manifest(self.making[-1], header("m", folder), self.rows)
        export_folder.publish(self.making[-1], folder)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    for name in ("LOOK", "MOST_WAIT", "_PAUSE"):
        monkeypatch.setattr(walks, name, 0.01)
    return Model(tmp_path)


def cluster(names: str, answer: Callable[[Json, Callable[[Json], None]], Json | None]) -> tuple[Walks, Workers]:
    made = Walks("tcp://nowhere", f"r{time.monotonic_ns()}")
    workers = Workers(made, names, answer)
    made._connection = workers
    return made, workers


def test_announcements_outlive_their_worker_and_another_makes_the_rest(model: Model) -> None:
    def answer(task: Json, tell: Callable[[Json], None]) -> Json | None:
        model.announce(tell, 0)
        if len(model.making) == 1:
            model.announce(tell, 1)
            return None
        assert task["temporary"] == str(model.making[1]), "a folder of its own"
        model.complete()
        return {"made": True}

    there, workers = cluster("ab", answer)
    assert model.walked(there)
    assert workers.asked == ["a", "b"]
    export = model.growing
    assert [export.folder_of(each.op_id) for each in model.rows] == [model.making[1], model.making[0]]
    assert not there._devices.walking()


def test_a_model_that_loses_three_workers_has_failed(model: Model) -> None:
    there, workers = cluster("abcd", lambda task, tell: None)
    with pytest.raises(Unpreparable, match="worker lost at export: its worker died, again and again"):
        model.walked(there)
    assert workers.asked == ["a", "b", "c"]


def test_workers_that_would_make_other_goldens_are_left_out(model: Model) -> None:
    there, workers = cluster("ab", lambda task, tell: {"unlike": True})
    assert not model.walked(there), "it is walked here"
    assert not model.walked(there)
    assert workers.asked == ["a", "b"], "each is asked once"


def test_a_worker_that_sees_no_folder_is_sent_the_files(model: Model) -> None:
    def answer(task: Json, tell: Callable[[Json], None]) -> Json:
        if "files" not in task:
            assert task["kept"] == model.task.kept
            return {"blind": True}
        assert set(task["files"]) == {"exported/module.mlirbc", task["kept"]}
        there = model.folder / "worker" / task["kept"]
        there.parent.mkdir()
        there.write_bytes(workers.files[task["files"][task["kept"]]])
        assert stored.read_bytes(there) == b"its split", "the digest in it covers its name"
        return {"unpreparable": "no"}

    stored.write_bytes(model.folder / "0.split", b"its split")
    (model.folder / "0.split.export").mkdir()
    (model.folder / "0.split.export" / "module.mlirbc").write_bytes(b"module")
    there, workers = cluster("a", answer)
    with pytest.raises(Unpreparable, match="no"):
        model.walked(there)
    assert (workers.asked, workers.called) == (["a", "a"], ["drop"])


def test_small_files_of_ops_that_are_announced_together_travel_together(model: Model) -> None:
    def answer(task: Json, tell: Callable[[Json], None]) -> Json:
        if "files" not in task:
            return {"blind": True}
        announcer = Announcer(lambda text: tell({"event": "announce", "text": text}))
        for each in model.rows:
            announcer.op(elsewhere, each)
        return {"unpreparable": "no"}

    model.rows = [row(number, "m") for number in range(20)]
    elsewhere = filled(model.folder / "elsewhere", *model.rows)
    (here := model.folder / ".making-1").mkdir()
    (model.folder / "0.split.export").mkdir()
    there, workers = cluster("a", answer)
    workers.content = lambda key, paths: [(elsewhere / path).read_bytes() for path in paths]
    with pytest.raises(Unpreparable, match="no"):
        there.walk(Making(model.task, Allowance(60.0), lambda event: None, growing=model.growing), "", lambda: here)
    asked = 1 + 2 * len(model.rows)
    assert workers.called == ["small_files"] * -(-asked // walks.SMALL_FILES) + ["drop"]
    export = model.growing
    assert {export.folder_of(each.op_id) for each in model.rows} == {here}
    assert stored.checked(here, model.rows[-1].golden[0]).read_bytes() == b"what values/19.npy holds"


def test_a_model_that_several_processes_may_walk_gets_the_free_devices_of_a_worker(model: Model) -> None:
    there, workers = cluster("a", lambda task, tell: {"unpreparable": f"{task['processes']}"})
    workers.devices = 4
    for may, got in ((9, 4), (3, 3), (1, 1)):
        there.note({"event": "split", "model": "m", "processes": may})
        with pytest.raises(Unpreparable, match=f"^{got}$"):
            model.walked(there)
    assert not there._devices.walking()


def test_what_the_worker_refuses_is_refused(model: Model) -> None:
    there, _ = cluster("a", lambda task, tell: {"refused": [False, "cache folder", "a disk", "a full one", ""]})
    with pytest.raises(InputError, match="cache folder: expected a disk"):
        model.walked(there)


def test_a_walk_that_is_not_wanted_any_more_is_ended_on_its_worker(model: Model) -> None:
    there, workers = cluster("a", lambda task, tell: {})
    until = time.monotonic() + 0.05

    def check() -> None:
        if time.monotonic() > until:
            raise Stopped

    with pytest.raises(Stopped):
        model.walked(there, Allowance(60.0, check=check))
    assert (workers.called, there._devices.walking()) == (["drop"], False)


def test_the_time_of_a_model_stands_still_while_it_waits_for_a_device(model: Model) -> None:
    there, _ = cluster("a", lambda task, tell: {"unpreparable": f"{task['allowance']['spent']:.2f}"})
    assert there._devices.reserve({"a": 1}, lambda worker: True) == "a"
    until = time.monotonic() + 0.1

    def check() -> None:
        if time.monotonic() > until and there._devices.walking():
            there._devices.release("a")

    with pytest.raises(Unpreparable, match=r"^0\.0[0-4]$"):
        model.walked(there, Allowance(60.0, check=check))
