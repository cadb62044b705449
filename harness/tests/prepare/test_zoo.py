"""The zoo: its table has every model, and says what an export says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.base.tests.in_this_process import in_this_process
from opscope.harness.cli.commands import models
from opscope.harness.prepare import exporting, zoo
from opscope.harness.prepare.exporting import ExportFailed
from opscope.models import frontends, registry


def test_the_table_has_every_model_and_no_other() -> None:
    ours = {name for name in registry.names() if registry.get(name).path.is_relative_to(registry.ROOT)}
    assert set(zoo.table()) == ours, "make zoo"


def test_published_sizes_are_met_by_every_framework() -> None:
    sizes = zoo.table()
    for published, names in {
        25_557_032: ("resnet50", "resnet50_torch", "resnet50_flax"),
        109_482_240: ("bert_base", "bert_base_torch"),
        86_567_656: ("vit_base", "vit_base_torch"),
        124_439_808: ("gpt2_small", "gpt2_torch"),
        8_030_261_248: ("llama3_8b",),
        859_520_964: ("sd15_unet",),
    }.items():
        assert {sizes[name].parameters for name in names} == {published}


def test_the_zoo_is_wide() -> None:
    listed = zoo.listing()
    sizes = {m.name: zoo.Sizes(m.parameters, m.ops, m.unique_ops) for m in listed}
    assert sizes == {name: zoo.table()[name] for name in sizes}
    assert {m.framework for m in listed} >= {"jax", "torch", "flax", "equinox"}
    families = {m.family for m in listed if m.framework == "torch"}
    assert families >= {
        "cnn",
        "vision_transformer",
        "detection",
        "segmentation",
        "depth",
        "encoder",
        "decoder",
        "encoder_decoder",
        "mixture_of_experts",
        "state_space",
        "audio",
        "diffusion",
        "recommender",
        "graph",
        "time_series",
    }
    assert {m.size for m in listed} == {"full", "reduced"}
    assert [m.name for m in listed if m.giant] == ["llama3_8b", "sd15_unet"]
    assert not {m.name for m in registry.match("all")} & {"llama3_8b", "sd15_unet"}
    for model in listed:
        if model.framework in ("torch", "flax", "equinox"):
            assert model.size == "full" or "reduced" in model.about, model.name


def test_a_row_is_what_the_export_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))  # which an exporter sets
    with in_this_process(exporting):
        assert zoo.count(registry.get("mnist_mlp"), tmp_path, 1 << 30) == zoo.table()["mnist_mlp"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist_mlp", "gcn_torch"])
def test_a_row_is_what_an_export_in_a_child_says(name: str, tmp_path: Path) -> None:
    model = registry.get(name)
    if missing := frontends.missing(model.framework, model.path):
        pytest.skip(missing)
    assert zoo.count(model, tmp_path, 1 << 30) == zoo.table()[name]


def test_the_command_lists_them() -> None:
    text = CliRunner().invoke(models, [], catch_exceptions=False).output
    assert [line for line in text.splitlines() if line.split()[:1] == ["llama3_8b"] and "8,030,261,248" in line]
    listed = json.loads(CliRunner().invoke(models, ["--json"], catch_exceptions=False).output)
    assert {"name", "framework", "family", "size", "parameters", "ops", "unique_ops"} <= set(listed[0])


def test_a_model_without_its_framework_keeps_its_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frontends, "missing", lambda framework, model=None: f"{framework} not installed")
    lines: list[str] = []
    assert zoo.recount([registry.get("gcn_torch")], tmp_path, 1, lines.append) == zoo.table()
    assert lines == ["gcn_torch: torch not installed"]


def test_a_model_that_fails_keeps_its_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(model: object, cache: Path, max_cache: int) -> None:
        raise ExportFailed("build", "RuntimeError: no", "")

    monkeypatch.setattr(zoo, "count", fails)
    lines: list[str] = []
    assert zoo.recount([registry.get("mnist_mlp")], tmp_path, 1, lines.append) == zoo.table()
    assert lines == ["mnist_mlp: build_failed: RuntimeError: no"]
