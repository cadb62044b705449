"""The jobs of models: which come first, and what each needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from opscope.base import stored
from opscope.harness.cache import export_folder
from opscope.harness.engine import model_jobs
from opscope.harness.engine.jobs import Turn
from opscope.harness.engine.model_jobs import Means, ModelJobs
from opscope.harness.prepare.make_folder import Elsewhere
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.records import ImportCheck
from opscope.harness.record.stages import ImportStatus
from opscope.harness.tests.cache.test_growing_export import filled, header, row


def jobs_of(folder: Path, names: Sequence[str], means: Means) -> ModelJobs:
    """The jobs of StableHLO files of these names, none of which is made."""
    for name in names:
        (folder / f"{name}.mlir").write_text("module {}")
    request = Preparation(tuple(str(folder / f"{name}.mlir") for name in names), cache_dir=str(folder))
    return ModelJobs(request, means, lambda event: None)


def order_of(jobs: ModelJobs) -> list[tuple[str, str, tuple[int, ...], bool]]:
    """Step, model, needs and place of each job."""
    return [(job.kind.value, job.model, tuple(job.needs), job.elsewhere) for job in jobs._jobs()]


def checked(*_: object) -> ImportCheck:
    return ImportCheck(model="m", framework="jax", status=ImportStatus.NOT_CHECKED)


def complete(folder: Path) -> None:
    export_folder.write_manifest(filled(folder, row(1, "m")), header("m", folder), [row(1, "m")])
    stored.seal(folder, folder.name)


def test_models_are_split_before_any_is_walked_and_cached_ones_are_known_first(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, "abc", Means(splits=tmp_path))
    complete(Path(jobs.tasks[1].folder))
    assert order_of(jobs) == [
        ("walk", "b", (), False),
        ("split", "a", (), False),
        ("split", "c", (), False),
        ("walk", "a", (1,), False),
        ("walk", "c", (2,), False),
    ]


@pytest.mark.parametrize("announced", [True, False])
def test_as_many_models_as_may_be_under_way_are_split_and_walked_in_one_job(announced: bool, tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, "ab", Means(at_once=2 if announced else 1, splits=tmp_path if announced else None))
    assert order_of(jobs) == [("walk", "a", (), False), ("walk", "b", (), False)]


def test_models_that_others_walk_are_split_here(tmp_path: Path) -> None:
    means = Means(at_once=2, splits=tmp_path, elsewhere=cast("Elsewhere", object()))
    assert order_of(jobs_of(tmp_path, "ab", means)) == [
        ("split", "a", (), False),
        ("split", "b", (), False),
        ("walk", "a", (0,), True),
        ("walk", "b", (1,), True),
    ]


def test_a_check_comes_after_its_models_walk_and_after_all_else(tmp_path: Path) -> None:
    request = Preparation(("mnist_mlp", "resnet50"), cache_dir=str(tmp_path))
    jobs = ModelJobs(request, Means(splits=tmp_path, check=checked), lambda event: None)
    assert [(step, needs) for step, _, needs, _ in order_of(jobs)] == [
        ("split", ()),
        ("split", ()),
        ("walk", (0,)),
        ("walk", (1,)),
        ("check", (2,)),
        ("check", (3,)),
    ]


def test_a_model_that_is_not_prepared_is_not_checked(tmp_path: Path) -> None:
    asked: list[str] = []

    def check(task: Any, *_: object) -> ImportCheck:
        asked.append(task.name)
        return checked()

    bad = tmp_path / "bad.py"
    bad.write_text(
        "from opscope.models.registry import model\n@model(framework='jax')\ndef bad():\n    raise ValueError('no')\n"
    )
    jobs = ModelJobs(
        Preparation((str(bad),), cache_dir=str(tmp_path / "cache")), Means(check=check), lambda event: None
    )
    manifest, _ = jobs.done()
    assert ([failure.model for failure in manifest.failed], asked) == (["bad"], [])


def test_each_model_has_its_own_place_for_what_is_announced_of_it_and_for_its_split(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, "ab", Means(splits=tmp_path))
    assert [Path(task.kept).relative_to(tmp_path).name for task in jobs.tasks] == ["0.split", "1.split"]
    assert len({id(export) for export in jobs.exports.values()}) == 2


def test_an_export_that_another_run_has_made_meanwhile_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one has split the model, and its lanes wait."""
    monkeypatch.setattr(model_jobs, "whole_rows", lambda folders: ())
    jobs = jobs_of(tmp_path, "m", Means(splits=tmp_path))
    (task,) = jobs.tasks
    jobs.exports["m"].split(header("m", tmp_path), [row(1, "m", golden=False)])
    complete(Path(task.folder))
    jobs.walk(task, Turn(lambda event: None))
    assert jobs.exports["m"].complete
