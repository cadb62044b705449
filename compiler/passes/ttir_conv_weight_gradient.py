"""Pass `ttir-conv-weight-gradient`: the gradient of a convolution's weights becomes patches and one product.

JAX expresses it as a convolution whose images are the channels of the forward pass's image, and whose kernel is the
gradient of its result: as large as the image, and made on the device. With i over results, j over the kernel, b over
images and o over output channels,

    y[b, i, o] = sum_j x[b, i * stride + j * dilation] w[j, o]

So i and j may change places: for each i, what it reads at every j is a patch of the image that has the b as channels,
gathered as for a forward convolution with stride and dilation changed over; then y is a product over j, for each i.
TT-Buda gets the same from the backward pass of its sparse matmul (tt-buda: pybuda/op/eval/pybuda/matmul.py).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects.buda import PatchesOp
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import like, make, shape_of
from opscope.compiler.ir.functions import functions
from opscope.compiler.translations.ttir_to_graph.arguments import parameters
from opscope.compiler.translations.ttir_to_graph.hosts import host_values


@dataclass(frozen=True)
class TtirConvWeightGradient(ModulePass):
    """Rewrites convolutions of one input channel that have several images, or a kernel that the device makes."""

    name = "ttir-conv-weight-gradient"
    all_inputs: bool = False
    """No argument counts as a parameter."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for func in functions(op):
            block = func.body.blocks[0]
            on_host = host_values(block, parameters(block, self.all_inputs))
            for conv in list(block.ops):
                if isinstance(conv, RowOp) and conv.ROW.ttir == "conv2d" and _is_gradient(conv, on_host):
                    _rewrite(conv)


def _is_gradient(conv: RowOp, on_host: Container[SSAValue]) -> bool:
    """Whether each image has one channel, and nothing else keeps i and j from changing places.

    A forward convolution of one gray image, whose kernel the host holds, is none.
    """
    if shape_of(conv.operands[0])[0] == 1 and conv.operands[1] in on_host:
        return False
    attrs = conv.read()
    plain = attrs["groups"] == attrs.get("batch_groups", 1) == 1
    dilated = any(step != 1 for step in attrs.get("input_dilation") or (1,))
    return plain and not dilated and len(conv.operands) == 2 and shape_of(conv.operands[0])[3] == 1


def _rewrite(conv: RowOp) -> None:
    image, kernel = conv.operands
    images, height, width, _ = shape_of(image)
    _, out_height, out_width, channels = shape_of(conv.results[0])
    attrs = conv.read()
    stride, dilation = attrs["dilation"], attrs["stride"]
    top, _, left, _ = attrs["padding"]
    low = top, left
    counts = shape_of(kernel)[:2]
    # As many windows as the kernel has taps: the padding behind follows, and cuts off what no tap reads.
    high = (
        (count - 1) * step + (out - 1) * reach + 1 - size - before
        for count, step, out, reach, size, before in zip(
            counts, stride, (out_height, out_width), dilation, (height, width), low, strict=True
        )
    )
    pixels = make("permute", [image], like(image, (1, height, width, images)), conv, permutation=(3, 1, 2, 0))
    patches = PatchesOp.make(
        pixels.results[0], conv, kernel=(out_height, out_width), stride=stride, padding=(*low, *high), dilation=dilation
    )
    taps, positions = out_height * out_width, counts[0] * counts[1]
    turned = make("permute", [patches.results[0]], like(image, (taps, images, positions)), conv, permutation=(0, 2, 1))
    flat = make("reshape", [kernel], like(kernel, (1, positions, channels)), conv, shape=(1, positions, channels))
    each = make(
        "broadcast",
        [flat.results[0]],
        like(kernel, (taps, positions, channels)),
        conv,
        broadcast_dimensions=(taps, 1, 1),
    )
    product = make(
        "matmul",
        [turned.results[0], each.results[0]],
        like(image, (taps, images, channels)),
        conv,
        transpose_a=False,
        transpose_b=False,
    )
    split = (out_height, out_width, images, channels)
    unfolded = make("reshape", [product.results[0]], like(image, split), conv, shape=split)
    last = make("permute", [unfolded.results[0]], conv.results[0].type, conv, permutation=(2, 0, 1, 3))
    block = conv.parent
    assert block is not None
    block.insert_ops_before([pixels, patches, turned, flat, each, product, unfolded, last], conv)
    conv.results[0].replace_all_uses_with(last.results[0])
    block.erase_op(conv)
