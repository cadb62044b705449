"""Constants of dialect `arith`, which torch-mlir leaves in places, as StableHLO's: artifacts take no others."""

from __future__ import annotations

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import context, load, to_bytecode
from opscope.harness.prepare.mlir.traversal import ops_in

_DIALECT = b"arith"
"""Names of dialects stand in bytecode as they are."""


def with_stablehlo_constants(module: bytes) -> bytes:
    """The module with its constant tensors as `stablehlo.constant`; the same bytes if it has none of `arith`."""
    if _DIALECT not in module:
        return module
    loaded = load(module)
    ops = ops_in(loaded, "arith.constant")
    constants = [op for op in ops if isinstance(op.results[0].type, ir.RankedTensorType)]
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
