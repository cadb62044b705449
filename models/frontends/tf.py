"""TensorFlow: exports one of opscope's models, or a user's SavedModel folder, by TensorFlow's own XLA bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.models.frontends.base import ExportResult, Frontend, Refused, Source
from opscope.models.frontends.jax import package_versions

if TYPE_CHECKING:
    from opscope.models.frontends.through_tf.built import TfBuilt

TENSORFLOW = ("tensorflow-cpu", "tensorflow")
"""Distributions of TensorFlow, of which one is enough."""
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "0"}


@dataclass(frozen=True)
class Tf(Frontend):
    """The exporter of TensorFlow functions and SavedModels."""

    name: str = "tf"
    either: tuple[str, ...] = TENSORFLOW
    extra: str = "tf"
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)

    def build(self, source: Source) -> TfBuilt:
        """Returns a registered model (`arguments.Built`, of TensorFlow's ops) or the signature of a SavedModel."""
        from opscope.models.frontends.through_tf import saved_model
        from opscope.models.frontends.through_tf.built import TfBuilt

        if Path(source.path).is_dir():
            return saved_model.load(Path(source.path), source.entry, dict(source.shapes), source.sizes)
        built = super().build(source)
        names = [spec.name for spec in built.arguments]

        def call(*tensors: Any) -> Any:
            return built.forward(dict(zip(names, tensors, strict=True)))

        return TfBuilt(call, built.arguments)

    def export(self, built: TfBuilt, source: Source) -> ExportResult:
        """Exports the function as StableHLO."""
        return export_result(built, source)

    def results(self, built: TfBuilt, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """The function on TensorFlow's own kernels."""
        from opscope.models.frontends.through_tf.own_kernels import results

        return package_versions((), TENSORFLOW), results(built, values)


def export_result(built: TfBuilt, source: Source) -> ExportResult:
    """Exports a function by TensorFlow. Raises Refused for a training step, which only JAX functions have."""
    from opscope.models.frontends.through_tf.lower import lower

    if source.training:
        raise Refused("--training", "a model whose frontend makes a JAX function of it", source.name)
    bytecode, lowered = lower(built, source.name)
    versions = package_versions((), TENSORFLOW)
    return ExportResult(bytecode, lowered.arguments, versions, lowered.values, notes=lowered.notes)


FRONTEND = Tf()
