"""TensorFlow GraphDef: a frozen graph that one of opscope's models writes, or a user's `.pb` file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.temporary_folder import TemporaryFolder
from opscope.models.frontends.base import ExportResult, Frontend, Source
from opscope.models.frontends.jax import package_versions
from opscope.models.frontends.tf import ENVIRONMENT, TENSORFLOW, export_result

if TYPE_CHECKING:
    from opscope.models.frontends.through_tf.built import TfBuilt


@dataclass(frozen=True)
class GraphDef(Frontend):
    """The exporter of frozen graphs."""

    name: str = "graphdef"
    either: tuple[str, ...] = TENSORFLOW
    extra: str = "tf"
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)

    def build(self, source: Source) -> TfBuilt:
        """Returns the graph with its weights as arguments. A registered model gives the bytes of a GraphDef."""

        from opscope.models.frontends.through_tf import graph_def

        path = Path(source.path)
        if path.suffix == ".pb":
            return graph_def.as_function(graph_def.read(path), str(path), dict(source.shapes), source.sizes)
        written = super().build(source)
        with TemporaryFolder("graphdef") as folder:
            file = Path(folder) / f"{source.name}.pb"
            file.write_bytes(written)
            return graph_def.as_function(graph_def.read(file), source.name, {})

    def export(self, built: TfBuilt, source: Source) -> ExportResult:
        """Exports the graph as StableHLO."""
        return export_result(built, source)

    def results(self, built: TfBuilt, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """The graph on TensorFlow's own kernels."""
        from opscope.models.frontends.through_tf.own_kernels import results

        return package_versions((), TENSORFLOW), results(built, values)


FRONTEND = GraphDef()
