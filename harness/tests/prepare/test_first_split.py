"""Models are split before others are evaluated, but for who has none left to split."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.base.children.side_by_side import Stopped, Turn, side_by_side
from opscope.harness.cache.claims import Claims
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.prepare.prepare_models import Models, _FirstSplit

PATIENCE = 10.0


class OneModel:
    """The split of the model `slow` ends once another is evaluated; what happens is a row of `rows`."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Any] = {}
        self.rows: list[str] = []
        self.evaluated = threading.Event()

    def split(self, task: Any, turn: Turn) -> None:
        self.rows.append(f"split {task.name}")
        if task.name == "slow" and not self.evaluated.wait(PATIENCE):
            raise AssertionError("nothing was evaluated meanwhile")

    def prepared(self, task: Any, turn: Turn) -> None:
        self.rows.append(f"evaluate {task.name}")
        self.outcomes[task.name] = task
        self.evaluated.set()


def test_goldens_of_a_model_do_not_wait_for_the_split_of_another() -> None:
    one: Any = OneModel()
    first, tasks = _FirstSplit(one), [SimpleNamespace(name=name) for name in ("slow", "a", "b")]
    side_by_side([*(partial(first.split, task) for task in tasks), *[first.walk] * 3], 2, lambda event: None)
    assert one.rows[:3] == ["split slow", "split a", "split b"]
    assert sorted(one.rows[3:]) == ["evaluate a", "evaluate b", "evaluate slow"]


def test_a_model_whose_evaluation_is_stopped_is_taken_by_the_next() -> None:
    one: Any = OneModel()
    task: Any = SimpleNamespace(name="a")
    first = _FirstSplit(one)
    turn = Turn(lambda event: None)
    first.split(task, turn)
    one.prepared = lambda task, turn: turn.check()
    turn.stop()
    with pytest.raises(Stopped):
        first.walk(turn)
    with pytest.raises(Stopped):  # as long as it waits for another, too
        _FirstSplit(one).walk(turn)
    first.split(task, Turn(lambda event: None))  # as after a stop: it is not evaluated twice
    del one.prepared
    first.walk(Turn(lambda event: None))
    assert one.rows == ["split a", "split a", "evaluate a"]
    assert not first._split


def test_each_model_has_its_own_place_for_what_is_announced_of_it_and_for_its_split(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.mlir").write_text("module {}")
    request = Preparation((str(tmp_path / "*.mlir"),), cache_dir=str(tmp_path))
    models = Models(request, lambda event: None, Claims(), None, 2, tmp_path)
    places = [
        [Path(place).relative_to(tmp_path).name for place in (task.announcements, task.kept)] for task in models.tasks
    ]
    assert places == [["0.jsonl", "0.split"], ["1.jsonl", "1.split"]]
