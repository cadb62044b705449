"""Modules of torch-mlir through its pipelines: its errors, and constants as XLA takes them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

BLOB_HEADER = 8
"""Hex digits before a resource's data: its alignment."""
_CONSTANT = re.compile(r"failed to legalize torch\.(constant|vtensor\.literal|prim)\b")


class NotLowered(Exception):
    """torch-mlir has no lowering for a model; the text names the node and the op."""


def through_pipelines(module: Any, pipelines: Sequence[str]) -> bytes:
    """The bytecode of a module (`torch_mlir.ir.Operation`) after some pipelines, its constants as XLA takes them.

    Raises NotLowered with the ops that no pipeline knows. (torch-mlir's own way to run them writes a file of each
    failure.)
    """
    from torch_mlir import ir, passmanager

    mlir: Any = ir  # modules that are filled from a library, and have no types
    passes: Any = passmanager
    with module.context:
        for pipeline in pipelines:
            try:
                passes.PassManager.parse(f"builtin.module({pipeline})").run(module)
            except mlir.MLIRError as error:
                said = first_diagnostic(str(error))
                raise NotLowered(_not_known(module, said) or said) from error
        text = module.get_asm(enable_debug_info=True)
        module = mlir.Module.parse(undense(text)).operation if "dense_resource" in text else module
    file = io.BytesIO()
    module.write_bytecode(file)
    return file.getvalue()


def _not_known(module: Any, said: str) -> str:
    """The PyTorch ops that a pipeline has left, where its first error is of a constant that only they still need."""
    from torch_mlir import ir

    mlir: Any = ir
    places: dict[str, str] = {}
    if _CONSTANT.search(said):
        module.walk(lambda op: _note(places, op.operation) or mlir.WalkResult.ADVANCE)
    left = ", ".join(places)
    where = next(iter(places.values()), "")
    return f"{where}: failed to legalize {left}".removeprefix(": ")[:300] if left else ""


def _note(places: dict[str, str], op: Any) -> None:
    if op.name.startswith("torch.aten."):
        places.setdefault(op.name, _place(str(op.location).removeprefix("loc(")))


def _place(location: str) -> str:
    """The innermost place of a location: a node's name, or a file with its line."""
    place = re.search(r'"([^"]*)"(:\d+)?', location)
    return "".join(filter(None, place.groups())) if place else ""


def first_diagnostic(text: str) -> str:
    """The first error in the text of an MLIRError: `node_1/Foo: failed to legalize onnx.Foo`.

    An ONNX op that torch-mlir does not know is a `torch.operator` with the op's name as an attribute.
    """
    errors = [line.strip() for line in text.splitlines() if line.strip().startswith("error:")]
    line = errors[0].removeprefix("error:").strip() if errors else text.strip().split("\n")[-1]
    head = re.match(r'(callsite\(.*\)|"[^"]*"(?::\d+:\d+)?|unknown): ', line)
    where, message = (_place(head[1]), line[head.end() :]) if head else ("", line)
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
