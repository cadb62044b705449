"""Texts of torch-mlir: its errors, and modules whose constants XLA takes."""

from __future__ import annotations

import re

import numpy as np

BLOB_HEADER = 8
"""Hex digits before a resource's data: its alignment."""


class NotLowered(Exception):
    """torch-mlir has no lowering for a model; the text names the node and the op."""


def first_diagnostic(text: str) -> str:
    """The first error in the text of an MLIRError: `node_1/Foo: failed to legalize onnx.Foo`.

    An ONNX op that torch-mlir does not know is a `torch.operator` with the op's name as an attribute.
    """
    errors = [line.strip() for line in text.splitlines() if line.strip().startswith("error:")]
    line = errors[0].removeprefix("error:").strip() if errors else text.strip().split("\n")[-1]
    head = re.match(r'(?:(?:"([^"]*)"|unknown): )?', line)
    where, message = (head[1], line[head.end() :]) if head else ("", line)
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
