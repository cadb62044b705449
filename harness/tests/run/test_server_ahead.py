"""What the process of which children are forks gets ready while pytest starts, and when it may load backends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.base import stored
from opscope.base.children import forked
from opscope.harness.lanes import worker_ahead
from opscope.harness.prepare import exporting
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.run import server_ahead

JAX = (exporting.EXPORTER, ("opscope.models.frontends.packages_ahead:import_packages", "jax"))
LANES = (worker_ahead.WORKER, worker_ahead.call_for("reference"))


def begun(monkeypatch: pytest.MonkeyPatch, cache: Path, model: str = "mnist_mlp", **settings: Any) -> list[Any]:
    """What is asked for when a run of one model begins."""
    asked: list[Any] = []
    monkeypatch.setattr(forked, "get_ready", lambda function, ahead=(): asked.append((function, ahead)))
    values = {"no_cache": False, "cluster": None, "backend": "reference", **settings}
    named = tasks(Preparation(models=(model,), cache_dir=str(cache), run="r1"))
    request: Any = SimpleNamespace(named=named, settings=values)
    server_ahead.begin(request)
    return asked


def kept(folder: Path) -> None:
    """Makes a folder that counts as complete."""
    folder.mkdir(parents=True)
    stored.seal(folder, folder.name)


def test_a_run_begins_with_what_it_needs_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert begun(monkeypatch, tmp_path) == [JAX]
    assert begun(monkeypatch, tmp_path, no_cache=True) == [JAX], "lanes come when the model is split"
    (task,) = tasks(Preparation(models=("mnist_mlp",), cache_dir=str(tmp_path), run="r1"))
    assert task.export is not None
    kept(tmp_path / "modules" / task.export.key(tmp_path))
    assert begun(monkeypatch, tmp_path) == [], "a kept export needs no framework"
    kept(Path(task.folder))
    assert begun(monkeypatch, tmp_path) == [], "whether an op runs is not known yet"
    assert begun(monkeypatch, tmp_path, no_cache=True) == [LANES]
    assert begun(monkeypatch, tmp_path, no_cache=True, cluster="tcp://127.0.0.1:1") == [], "ops run elsewhere"


def test_a_backend_is_loaded_once_the_first_export_is_being_split() -> None:
    export = {"event": "stage", "model": "m", "stage": "export", "total": 1}
    assert not server_ahead.lanes_may_load({**export, "done": 0, "forked": True})
    assert server_ahead.lanes_may_load({**export, "done": 0, "forked": False}), "a process of its own exports"
    assert server_ahead.lanes_may_load({**export, "done": 1}), "the child that splits is there"
    assert not server_ahead.lanes_may_load({"event": "done", "model": "m", "cached": True})
