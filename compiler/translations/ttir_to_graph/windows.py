"""Convolutions and pools: a sparse matmul gathers the pixels of each window tap, a product or a maximum follows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from opscope.compiler.buda.graph import NodeKind, TensorShape, Tm
from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import StageFailure
from opscope.compiler.target.formats import TILE
from opscope.compiler.translations.ttir_to_graph.contents import Content
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout
from opscope.compiler.translations.ttir_to_graph.values import HostValue

if TYPE_CHECKING:
    from opscope.compiler.translations.ttir_to_graph.lowering import Lowering

PICKER_FORMAT = "Bfp2_b"
GATHER_FIDELITY = "HiFi2"
"""More phases would multiply by zeros, since the picker has no low bits (TT-Buda has the same limit)."""


def convolution(
    lowering: Lowering, op: Operation, image: Dims, source: Operand, weights: HostValue, dims: Dims
) -> Operand:
    """Adds a 2-D convolution over `image` (N, H, W, C)."""
    for name in ("groups", "batch_groups"):
        count = op.properties.get(name)
        if isinstance(count, IntegerAttr) and count.value.data != 1:
            raise StageFailure("ttir-to-graph", op.name, f"{name} {count.value.data}", kind="notimpl")
    from opscope.compiler.translations.ttir_to_graph.lowering import ints

    if "input_dilation" in op.properties and any(step != 1 for step in ints(op.properties["input_dilation"])):
        raise StageFailure("ttir-to-graph", op.name, "a dilated input", kind="notimpl")
    kernel = weights.dims[:2]
    gathered, pattern = _gather(lowering, op, image, source, (kernel[0], kernel[1]))
    # Each tap's channels fill whole tiles, so that taps lie side by side.
    inner = prod(kernel) * -(-image[3] // TILE) * TILE
    name = weights.name if weights.name not in lowering.builder.nodes else lowering.fresh(weights.name)
    sizes = (1, inner, dims[3])
    right = lowering.builder.source(name, NodeKind.PARAMETER, TensorShape.of(sizes), elements=sizes)
    lowering.contents[name] = Content(name, weights.full, sizes, channels=image[3])
    tms = (Tm("vslice", pattern.taps), Tm("hstack", pattern.taps)) if pattern is not None and pattern.taps > 1 else ()
    left = Operand(gathered.producer, (*gathered.tms, *tms))
    return lowering.node("matmul", [left, right], Layout.pixels(dims).sizes)


def max_pool(lowering: Lowering, op: Operation, image: Dims, source: Operand, dims: Dims) -> Operand:
    """Adds a maximum over windows: the taps are stacked along z and reduced."""
    from opscope.compiler.translations.ttir_to_graph.lowering import ints

    kernel = ints(op.properties["kernel"])
    if len(kernel) != 2:
        raise StageFailure("ttir-to-graph", op.name, f"a window of {len(kernel)} dims", kind="notimpl")
    if any(ints(op.properties["padding"])) and not nonnegative(op.operands[0]):
        raise StageFailure(
            "ttir-to-graph",
            op.name,
            "a padded maximum of what may be negative: a picker pads with zeros",
            kind="notimpl",
        )
    gathered, pattern = _gather(lowering, op, image, source, (kernel[0], kernel[1]))
    if pattern is None:
        return gathered
    behind = Operand(gathered.producer, (*gathered.tms, Tm("vslice", pattern.taps)))
    return lowering.node("reduce", [behind], Layout.pixels(dims).sizes, reduce_dim="z", reduce_type="max")


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


def _gather(
    lowering: Lowering, op: Operation, image: Dims, source: Operand, kernel: tuple[int, int]
) -> tuple[Operand, SparsePattern | None]:
    """Gathers the pixels of each tap, one tap below the other; returns the source itself if a tap is every pixel."""
    from opscope.compiler.translations.ttir_to_graph.lowering import ints

    if image[0] != 1:
        raise StageFailure("ttir-to-graph", op.name, f"a batch of {image[0]} images", kind="notimpl")
    sy, sx = ints(op.properties["stride"])
    top, left, bottom, right = ints(op.properties["padding"])
    dy, dx = ints(op.properties["dilation"])
    if (kernel, sy, sx, top, bottom, left, right) == ((1, 1), 1, 1, 0, 0, 0, 0):
        return source, None
    pattern = SparsePattern.of_convolution(
        (image[1], image[2]), kernel, (sy, sx), ((top, bottom), (left, right)), (dy, dx)
    )
    shape = TensorShape(1, 1, pattern.rows, pattern.cols)
    picker = lowering.builder.source(lowering.fresh("picker"), NodeKind.CONSTANT, shape, PICKER_FORMAT)
    elements = (1, pattern.rows * TILE, image[3])
    options = {"math_fidelity": GATHER_FIDELITY, "sparse": pattern}
    return lowering.node("sparse_matmul", [picker, source], elements, **options), pattern
