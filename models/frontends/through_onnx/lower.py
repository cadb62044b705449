"""ONNX to StableHLO by torch-mlir's importer and pipelines."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from onnx import ModelProto

from opscope.models.frontends.through_onnx import marks
from opscope.models.frontends.through_onnx.expand import converted, expand

PIPELINES = ("torch-onnx-to-torch-backend-pipeline", "torch-backend-to-stablehlo-backend-pipeline")
BLOB_HEADER = 8
"""Hex digits before a resource's data: its alignment."""


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
    from torch_mlir import ir, passmanager
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras import onnx_importer

    # The package has no types: its modules are filled from a library.
    mlir: Any = ir
    passes: Any = passmanager
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
    with context:
        for pipeline in PIPELINES:
            try:
                passes.PassManager.parse(f"builtin.module({pipeline})").run(module)
            except mlir.MLIRError as error:
                raise NotLowered(first_diagnostic(str(error))) from error
        text = module.get_asm(enable_debug_info=True)
        module = mlir.Module.parse(undense(text)).operation if "dense_resource" in text else module
    file = io.BytesIO()
    module.write_bytecode(file)
    return marks.restored(file.getvalue(), model) if wide is not named else file.getvalue()


class NotLowered(Exception):
    """torch-mlir has no lowering for a graph; the text names the node and the op."""


def first_diagnostic(text: str) -> str:
    """The first error in the text of an MLIRError: `node_1/Foo: failed to legalize onnx.Foo`.

    An ONNX op that torch-mlir does not know is a `torch.operator` with the op's name as an attribute.
    """
    errors = [line.strip() for line in text.splitlines() if line.strip().startswith("error:")]
    line = errors[0].removeprefix("error:").strip() if errors else text.strip().split("\n")[-1]
    where, message = re.fullmatch(r'(?:(?:"([^"]*)"|unknown): )?(.*)', line, re.DOTALL).groups()
    if refused := re.match(r"failed to legalize (?:unresolved )?(?:operation|materialization) ?'?([\w.]*)'?", message):
        name = re.search(r'name = "([\w.]+)"', message) if refused[1] == "torch.operator" else None
        message = f"failed to legalize {name[1] if name else refused[1]}"
    return f"{where}: {message}"[:300] if where else message[:300]


def undense(text: str) -> str:
    """Returns the module's text with its resources as plain dense values, the only form that XLA accepts."""
    start = text.rfind("{-#")
    body, tail = (text, "") if start < 0 else (text[:start], text[start:])
    blobs = {k.strip('"'): v for k, v in re.findall(r'("[^"]*"|[\w./$:\-]+): "0x([0-9A-Fa-f]*)"', tail)}
    after = tail.partition("#-}")[2]

    def dense(match: re.Match[str]) -> str:
        data, kind = blobs[match[1].strip('"')][BLOB_HEADER:], match[2]
        *extents, element = kind[len("tensor<") : -1].split("x")
        if "0" in extents:
            return f"dense<> : {kind}"
        if element == "i1":
            bits = np.frombuffer(bytes.fromhex(data), np.uint8)
            if bits.min() == bits.max():
                return f"dense<{'true' if bits[0] else 'false'}> : {kind}"
            data = np.packbits(bits, bitorder="little").tobytes().hex()
        return f'dense<"0x{data.upper()}"> : {kind}'

    return re.sub(r'dense_resource<("[^"]*"|[^>]*)> : (tensor<[^>]*>)', dense, body) + after
