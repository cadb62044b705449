"""Exports: StableHLO with locations of the model's own lines, without weights; files in all three forms."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from opscope.harness.prepare import export, mlir
from opscope.harness.prepare.export import export_file, export_model
from opscope.harness.record.errors import InputError
from opscope.models import registry
from opscope.models.frontends.base import ExportResult

TEXT = """func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %a, %a : tensor<2x3xf32>
  return %0 : tensor<2x3xf32> }"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_arguments_in_the_order_of_the_specs(dtype: str) -> None:
    model = registry.get("mnist_mlp")
    exported = export_model(model, dtype)
    module = mlir.load(exported.bytecode)  # owns its operations
    main = module.body.operations[0]
    element = {"float32": "f32", "bfloat16": "bf16"}[dtype]
    expected = [f"tensor<{'x'.join(map(str, s.shape))}x{element}>" for s in exported.arguments]
    assert [str(a.type) for a in main.regions[0].blocks[0].arguments] == expected
    assert exported.arguments == model.build(dtype).arguments
    assert exported.frontend.startswith("jax 0.")
    assert len(exported.bytecode) < 10_000


def test_a_name_alone_is_inference_and_training_has_to_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is asked of the frontend: the export of a training step is test_prepare.py's."""
    asked: list[bool] = []

    def noted(model: registry.Model, training: bool = False) -> ExportResult:
        asked.append(training)
        return ExportResult(b"", (), model.name)

    monkeypatch.setattr(export, "export_apart", noted)
    assert [export.stablehlo_of(name) for name in ("mnist_mlp", f"mnist_mlp{registry.TRAINING}")] == [b"", b""]
    assert asked == [False, True]
    fixed = dataclasses.replace(registry.get("mnist_mlp"), trainable=False)
    monkeypatch.setattr(registry, "get", lambda name: fixed)
    assert export.stablehlo_of("mnist_mlp") == b""
    with pytest.raises(ValueError, match=r"mnist_mlp.training: expected a model that can be trained"):
        export.stablehlo_of(f"mnist_mlp{registry.TRAINING}")


def test_a_model_by_name_is_exported_in_a_child(tmp_path: Path) -> None:
    """With what it says in one line if it cannot be, and with its arguments if it can."""
    model = registry.get("mnist_mlp")
    exported = export.export_apart(model)
    assert str(mlir.load(exported.bytecode)) == str(mlir.load(export_model(model).bytecode))
    assert exported.arguments == model.build("float32").arguments
    broken = tmp_path / "broken.py"
    broken.write_text(f"{model.path.read_text()}\n\nraise RuntimeError('no\\nweights')\n")
    with pytest.raises(ValueError, match=r"^mnist_mlp: expected a model that jax exports, got .*RuntimeError: no"):
        export.export_apart(dataclasses.replace(model, path=broken))


def test_locations_name_layer_file_and_line() -> None:
    exported = export_model(registry.get("resnet50"))
    text = mlir.load(exported.bytecode).operation.get_asm(enable_debug_info=True)
    assert "resnet50.py" in text
    assert "layer3.4.conv2/conv_general_dilated" in text
    assert len(exported.bytecode) < 100_000  # 102 MB with the weights inside


@pytest.mark.parametrize("form", ["text", "bytecode", "artifact"])
def test_files_of_every_form(tmp_path: Path, form: str) -> None:
    module = mlir.load(TEXT)
    data = TEXT.encode() if form == "text" else mlir.to_bytecode(module)
    if form == "artifact":
        stablehlo = pytest.importorskip("jaxlib.mlir.dialects.stablehlo")
        data = stablehlo.serialize_portable_artifact(module, "1.0.0")
    path = tmp_path / "some.bin"
    path.write_bytes(data)
    exported = export_file(path)
    assert exported.arguments == ()
    assert exported.frontend == "file"
    assert "stablehlo.add" in str(mlir.load(exported.bytecode))


def test_a_truncated_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.mlirbc"
    path.write_bytes(mlir.to_bytecode(mlir.load(TEXT))[:-40])
    with pytest.raises(InputError) as caught:
        export_file(path)
    assert "cut.mlirbc" in str(caught.value)
    assert "\n" not in str(caught.value)
