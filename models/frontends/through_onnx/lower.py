"""ONNX to StableHLO by torch-mlir's importer and pipelines."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto

from opscope.models.frontends.through_onnx import marks
from opscope.models.frontends.through_onnx.expand import converted, expand
from opscope.models.frontends.torch_mlir_text import through_pipelines

PIPELINES = ("torch-onnx-to-torch-backend-pipeline", "torch-backend-to-stablehlo-backend-pipeline")


def expanded_and_lowered(model: ModelProto) -> tuple[ModelProto, bytes]:
    """Returns the graph as it was rewritten, and its bytecode; of one in an old version of the standard that is not
    taken, by a newer version. Raises what the first reading raises."""
    try:
        return (expanded := expand(model)), lower(expanded)
    except Exception as error:
        newer = converted(model)
        if newer is None:
            raise
        try:
            return (expanded := expand(newer)), lower(expanded)
        except Exception:  # noqa: BLE001 - the user's own graph is what was refused
            raise error from None


def lower(model: ModelProto) -> bytes:
    """Returns the graph's bytecode. Its function is `main`; each op's location is the node's name and kind.

    Shapes must be inferred already. Raises NotLowered for a graph that torch-mlir cannot lower, and what its importer
    raises for a graph that it cannot read.
    """
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras import onnx_importer

    mlir: Any = ir  # the package has no types: its modules are filled from a library
    named = ModelProto()
    named.CopyFrom(model)
    named.graph.name = "main"
    for index, node in enumerate(named.graph.node):
        # The last part of a location is what records call the framework's op.
        node.name = f"{(node.name or f'node_{index}').strip('/')}/{node.op_type}"
    wide = marks.marked(named)
    context = mlir.Context()
    torch_dialect.register_dialect(context)
    info = onnx_importer.ModelInfo(wide, config=onnx_importer.Config())
    module: Any = info.create_module(context=context).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    code = through_pipelines(module, PIPELINES)
    return marks.restored(code, model) if wide is not named else code
