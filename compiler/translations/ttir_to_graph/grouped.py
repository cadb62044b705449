"""Convolutions in groups, of several images or of a dilated input.

As in TT-Buda, one group per channel is a `depthwise` product, whose right operand has diagonal tiles; other groups are
one dense product, whose weights are zero where input and output belong to different groups.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from opscope.compiler.buda.graph import TensorShape, Tm
from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.errors import StageFailure
from opscope.compiler.target.formats import TILE
from opscope.compiler.translations.ttir_to_graph.attributes import ints
from opscope.compiler.translations.ttir_to_graph.contents import Content
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout
from opscope.compiler.translations.ttir_to_graph.moves import whole
from opscope.compiler.translations.ttir_to_graph.state import State
from opscope.compiler.translations.ttir_to_graph.taps import apart, gathered, taps
from opscope.compiler.translations.ttir_to_graph.values import HostValue


def groups_of(op: Operation, name: str = "groups") -> int:
    """Returns a convolution's number of groups."""
    count = op.properties.get(name)
    return count.value.data if isinstance(count, IntegerAttr) else 1


def is_plain(op: Operation, image: Dims) -> bool:
    """Whether a convolution has one group, one image and no dilated input."""
    dilated = "input_dilation" in op.properties and any(step != 1 for step in ints(op.properties["input_dilation"]))
    return groups_of(op) == groups_of(op, "batch_groups") == image[0] == 1 and not dilated


def convolution(
    lowering: State, op: Operation, image: Dims, source: Operand, weights: HostValue, dims: Dims
) -> Operand:
    """Adds a 2-D convolution over `image` (N, H, W, C), whose pixels are the rows of `source`. Raises StageFailure."""
    if (count := groups_of(op, "batch_groups")) != 1:
        raise StageFailure("ttir-to-graph", op.name, f"batch_groups {count}", kind="notimpl")
    groups, kernel, (channels, results) = groups_of(op), weights.dims[:2], (image[3], dims[3])
    rows = taps(image, kernel, op, dims)
    beside = apart(gathered(lowering, source, image, rows), len(rows), Tm("hstack", len(rows)))
    by_channel = groups > 1 and groups == channels == results
    inner = prod(kernel) * (TILE if by_channel else whole(channels))
    name = weights.name if weights.name not in lowering.builder.nodes else lowering.fresh(weights.name)
    sizes = (1, inner, results)
    right = lowering.builder.source(name, weights.kind, TensorShape.of(sizes), elements=sizes)
    lowering.contents[name] = Content(name, weights.full, sizes, channels=channels, groups=groups)
    elements, kind = Layout(dims, 0, 3).sizes, "depthwise" if by_channel else "matmul"
    return lowering.node(kind, [beside, right], elements, shape=TensorShape.of(elements))
