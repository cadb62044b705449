"""ONNX: exports a graph that one of opscope's models builds, or a user's file, by torch-mlir's importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.models.frontends.base import ExportResult, Frontend, Refused, Source
from opscope.models.frontends.jax import package_versions

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt


@dataclass(frozen=True)
class Onnx(Frontend):
    """The exporter of ONNX graphs."""

    name: str = "onnx"
    packages: tuple[str, ...] = ("onnx", "torch-mlir")
    extra: str = "onnx"

    def build(self, source: Source) -> OnnxBuilt:
        """Returns the graph with its weights as arguments."""
        if Path(source.path).suffix == ".onnx":
            return from_file(Path(source.path), dict(source.shapes), inputs=source.inputs, sizes=source.sizes)

        return super().build(source)

    def export(self, built: OnnxBuilt, source: Source) -> ExportResult:
        """Exports the graph as StableHLO. Raises Refused for a training step, which only JAX functions have."""
        if source.training:
            raise Refused("--training", "a model whose frontend makes a JAX function of it", source.name)
        from opscope.base.quantised.pairs import with_quantised_types
        from opscope.models.frontends.through_onnx.bind import deciding
        from opscope.models.frontends.through_onnx.lower import expanded_and_lowered
        from opscope.models.frontends.torch_mlir_text import NotLowered

        try:
            _, bytecode = expanded_and_lowered(built.proto)
            if any(node.op_type == "QuantizeLinear" for node in built.proto.graph.node):
                bytecode = with_quantised_types(bytecode)
        except (NotLowered, ValueError) as error:
            if not (names := deciding(built.proto)):
                raise
            hint = ", ".join(map(repr, names))
            raise NotLowered(f"{error}; try --inputs FILE.npz with {hint}, whose values decide the program") from error
        versions = package_versions(self.packages)
        return ExportResult(bytecode, built.arguments, versions, built.values, built.bound)

    def results(self, built: OnnxBuilt, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """The graph as it was read, before any rewriting, by the standard's own reference; by ONNX Runtime where that
        raises."""
        from opscope.models.frontends.through_onnx.reference import evaluator

        reference = f"reference of {package_versions(('onnx',))}"
        try:
            return reference, evaluator(built.proto).run(None, dict(values))
        except Exception as refusal:  # noqa: BLE001 - each op raises what it likes
            from opscope.models.frontends.through_onnx import onnx_runtime

            try:
                return onnx_runtime.computed(built.proto, values)
            except Exception:  # noqa: BLE001 - what it raises says less of the graph than the standard's reference does
                raise refusal from None


def from_file(path: Path, shapes: Mapping[str, Any], where: str = "", inputs: str = "", sizes: str = "") -> OnnxBuilt:
    """Reads a user's `.onnx` file, named `where` in errors.

    Inputs that decide the program become constants where the .npz file `inputs` has their values. Raises Refused if the
    file is not ONNX, or if an input's shape is open.
    """
    from opscope.models.frontends.through_onnx import bind, lift
    from opscope.models.frontends.through_onnx.built import OnnxBuilt

    model = lift.read(path)
    bound: tuple[str, ...] = ()
    if inputs and (names := bind.deciding(model)):
        import numpy as np

        with np.load(inputs, allow_pickle=False) as archive:
            bound_values = {name: archive[name] for name in names if name in archive.files}
        model, bound = bind.bind(model, bound_values), tuple(bound_values)
    proto, specs, values = lift.lift(model, lift.fix_inputs(model, where or str(path), shapes, sizes))
    return OnnxBuilt(proto, tuple(specs), values, bound)


FRONTEND = Onnx()
