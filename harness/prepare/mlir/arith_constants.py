"""Constants of dialect `arith`, which torch-mlir leaves in places, as StableHLO's: artifacts take no others."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import context, load, to_bytecode

_DIALECT = b"arith"
"""Names of dialects stand in bytecode as they are."""


def with_stablehlo_constants(module: bytes) -> bytes:
    """The module with its constant tensors as `stablehlo.constant`; the same bytes if it has none of `arith`."""
    if _DIALECT not in module:
        return module
    loaded = load(module)
    constants: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType):
            constants.append(op)
        return ir.WalkResult.ADVANCE

    loaded.operation.walk(visit)
    if not constants:
        return module
    with context():
        for op in constants:
            attributes, place = {"value": op.attributes["value"]}, ir.InsertionPoint(op)
            types = [op.results[0].type]
            ours = ir.Operation.create(
                "stablehlo.constant", results=types, attributes=attributes, loc=op.location, ip=place
            )
            op.results[0].replace_all_uses_with(ours.results[0])
            op.erase()
    return to_bytecode(loaded)
