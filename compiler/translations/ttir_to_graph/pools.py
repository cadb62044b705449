"""Pools: the taps of each window lie along z, where they are added up or the largest is taken."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.errors import StageFailure
from opscope.compiler.translations.ttir_to_graph.attributes import ints
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout
from opscope.compiler.translations.ttir_to_graph.state import State
from opscope.compiler.translations.ttir_to_graph.taps import apart, gathered, taps

POOLS = {"max_pool2d": "max", "sum_pool2d": "sum"}
"""ttir op -> type of the reduction."""


def pool(lowering: State, op: Operation, image: Dims, source: Operand, dims: Dims) -> Operand:
    """Adds a pool over windows of `image` (N, H, W, C), whose pixels are the rows of `source`. Raises StageFailure."""
    kernel = ints(op.properties["kernel"])
    kind = POOLS[op.name.removeprefix("ttir.")]
    if len(kernel) != 2:
        raise StageFailure("ttir-to-graph", op.name, f"a window of {len(kernel)} dims", kind="notimpl")
    if kind == "max" and any(ints(op.properties["padding"])) and not nonnegative(op.operands[0]):
        raise StageFailure(
            "ttir-to-graph",
            op.name,
            "a padded maximum of what may be negative: a picker pads with zeros",
            kind="notimpl",
        )
    rows = taps(image, kernel, op, dims)
    behind = gathered(lowering, source, image, rows)
    if len(rows) == 1:
        return behind
    sizes = Layout(dims, 0, 3).sizes
    return lowering.node("reduce", [apart(behind, len(rows))], sizes, reduce_dim="z", reduce_type=kind)


def nonnegative(value: SSAValue) -> bool:
    """Whether the op that makes the value guarantees that no element is negative."""
    producer = value.owner
    if not isinstance(producer, Operation):
        return False
    if producer.name in ("ttir.reshape", "ttir.permute", "ttir.broadcast", "ttir.typecast", "ttir.max_pool2d"):
        return nonnegative(producer.operands[0])
    if producer.name == "ttir.full":
        fill = producer.properties["fill_value"]
        return isinstance(fill, FloatAttr | IntegerAttr) and fill.value.data >= 0
    if producer.name == "ttir.maximum":
        return any(nonnegative(operand) for operand in producer.operands)
    return producer.name in ("ttir.relu", "ttir.sigmoid", "ttir.exp", "ttir.abs")
