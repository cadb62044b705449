"""Convolutions of one image: a sparse matmul gathers the pixels of each window tap, a product follows."""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation

from opscope.compiler.buda.graph import NodeKind, TensorShape, Tm
from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.dialects.buda import PatchesOp
from opscope.compiler.target.formats import TILE
from opscope.compiler.translations.ttir_to_graph.attributes import ints
from opscope.compiler.translations.ttir_to_graph.contents import Content
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout
from opscope.compiler.translations.ttir_to_graph.names import GATHER_FIDELITY, PICKER_FORMAT
from opscope.compiler.translations.ttir_to_graph.state import State
from opscope.compiler.translations.ttir_to_graph.values import HostValue


def convolution(
    lowering: State, op: Operation, image: Dims, source: Operand, weights: HostValue, dims: Dims
) -> Operand:
    """Adds a 2-D convolution over `image` (N, H, W, C)."""
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


def patches(lowering: State, op: PatchesOp, image: Dims, source: Operand) -> Operand:
    """Gathers the windows of an image: kernel taps along z, windows as rows, channels as columns."""
    height, width = op.read()["kernel"]
    gathered, pattern = _gather(lowering, op, image, source, (height, width))
    if pattern is None or pattern.taps == 1:
        return gathered
    return Operand(gathered.producer, (*gathered.tms, Tm("vslice", pattern.taps)))


def _gather(
    lowering: State, op: Operation, image: Dims, source: Operand, kernel: tuple[int, int]
) -> tuple[Operand, SparsePattern | None]:
    """Gathers the pixels of each tap, one tap below the other; returns the source itself if a tap is every pixel."""
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
