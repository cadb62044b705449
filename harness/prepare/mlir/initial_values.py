"""Has XLA take the initial value of a sum or product once.

StableHLO leaves open how often it enters a reduction, so that only 0 of a sum and 1 of a product make a result; XLA's
CPU reduces in blocks of 32 and begins each with it. What a framework means is once: that is the golden.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import context, load, to_bytecode
from opscope.harness.prepare.mlir.single_op import constant
from opscope.harness.prepare.mlir.traversal import main_of
from opscope.harness.prepare.mlir.values import DTYPES, constant_array

_OPS = ("stablehlo.reduce", "stablehlo.reduce_window")
_IDENTITY = {"stablehlo.add": 0, "stablehlo.multiply": 1}
"""Body -> what changes nothing. That of other bodies may enter any number of times, as the larger of two does."""


def with_initial_values_once(module: ir.Module) -> ir.Module:
    """A copy in which sums and products begin with 0 and 1 and meet another initial value last; the module itself if
    there is no other."""
    if not any(_others(module)):
        return module
    with context(), ir.Location.unknown():
        copy = load(to_bytecode(module))
        for op, body in list(_others(copy)):
            _rewrite(op, body)
    return copy


def _others(module: ir.Module) -> Iterator[tuple[ir.Operation, str]]:
    """The sums and products in `@main` with another initial value, and the one op of their body."""
    for view in main_of(module).regions[0].blocks[0].operations:
        op = view.operation
        if op.name in _OPS and len(op.operands) == 2:
            body, *others = [each.operation.name for each in op.regions[0].blocks[0].operations]
            known = body in _IDENTITY and len(others) == 1 and _dtype(op.operands[1]) is not None
            if known and not _is_identity(op.operands[1], body):
                yield op, body


def _dtype(value: ir.Value) -> Any:
    """NumPy's type of a tensor's elements; None where it has none."""
    return DTYPES.get(str(ir.RankedTensorType(value.type).element_type))


def _is_identity(value: ir.Value, body: str) -> bool:
    """Whether an initial value is a constant that changes nothing."""
    made_by = value.owner
    if isinstance(made_by, ir.Block) or made_by.operation.name != "stablehlo.constant":
        return False
    array = constant_array(made_by.operation)
    return array is not None and bool(array == _IDENTITY[body])


def _rewrite(op: ir.Operation, body: str) -> None:
    """Begins with the identity, and adds or multiplies with the initial value after it."""
    start, result = op.operands[1], op.results[0]
    identity = constant(np.full((), _IDENTITY[body], _dtype(start)), start.type)
    ir.InsertionPoint(op).insert(identity)
    op.operands[1] = identity.results[0]
    following = next(after for before, after in itertools.pairwise(op.block) if before.operation == op)
    with ir.InsertionPoint(following):
        dims: dict[str, ir.Attribute] = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
        spread = ir.Operation.create(
            "stablehlo.broadcast_in_dim", results=[result.type], operands=[start], attributes=dims
        )
        joined = ir.Operation.create(body, results=[result.type], operands=[spread.results[0], result])
    result.replace_all_uses_except(joined.results[0], joined)
