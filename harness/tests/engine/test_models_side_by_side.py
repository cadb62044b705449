"""Models prepared side by side: the same manifest and the same bits as one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opscope.base import stored
from opscope.harness.cache import export_folder
from opscope.harness.engine.model_jobs import Means, prepare
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.records import ManifestHeader, OpRow
from opscope.harness.record.stages import ModelStatus
from opscope.harness.tests.prepare.test_prepare import FINE

pytestmark = pytest.mark.slow


def contents(cache: Path, header: ManifestHeader) -> dict[str, Any]:
    """Size and digest of each file of the models' exports, without manifests: those say where the cache is."""
    marks = {Path(folder).name: stored.marks(Path(folder)) or {} for folder in header.export_dirs}
    return {
        folder: {path: files[path] for path in files if path != export_folder.MANIFEST}
        for folder, files in marks.items()
    }


def prepared(
    cache: Path, models: tuple[str, ...], at_once: int, events: list[dict[str, Any]] | None = None
) -> tuple[ManifestHeader, list[OpRow], dict[str, Any]]:
    """What the preparation of some models in an empty cache gives, without the place of the cache."""
    heard = [] if events is None else events
    header, rows = prepare(
        Preparation(models=models, cache_dir=str(cache), run="one"), heard.append, Means(at_once=at_once)
    )
    files = contents(cache, header)
    return export_folder.below(cache, header), rows, files


def test_small_models_are_the_same_however_many_are_under_way(tmp_path: Path) -> None:
    for name, text in (("a", FINE), ("b", "no module"), ("c", FINE.replace("tanh", "sine")), ("d", FINE)):
        (tmp_path / f"{name}.mlir").write_text(text)
    models = (str(tmp_path / "*.mlir"),)
    events: list[dict[str, Any]] = []
    together = prepared(tmp_path / "together", models, 3, events)
    header, rows, files = together
    assert header.models == ("a", "c", "d"), "in the order of the request"
    assert [(failure.model, failure.status) for failure in header.failed] == [("b", ModelStatus.EXPORT_FAILED)]
    assert [use.model for use in rows[0].uses] == ["a", "d"]
    assert len(files) == 3
    first = {event["model"]: number for number, event in reversed(list(enumerate(events))) if "model" in event}
    assert max(first[name] for name in "abc") < min(
        number for number, event in enumerate(events) if event["event"] == "done"
    ), "three begin before one ends"
    assert together == prepared(tmp_path / "one", models, 1)


def test_five_models_are_the_same_side_by_side(tmp_path: Path) -> None:
    models = ("mnist_mlp", "resnet50", "bert_base", "vit_base", "gpt2_small")
    assert prepared(tmp_path / "together", models, 3) == prepared(tmp_path / "one", models, 1)
