"""Pass `ttir-conv-fracture`: a large convolution becomes one convolution per row of its kernel, and a sum.

TT-Buda's fracturing at op level (tt-buda: pybuda/op/eval/pybuda/convolution.py, decompose_fracture_conv2d_at_op_level).
The gather of a kernel tap takes a row of tiles per 32 output pixels and cannot be spread over more cores than its rows
divide into; kernel rows are gathered side by side instead. Applies where the gather would have more than 1,400 rows of
tiles (sparse_utils.py, does_fracturing_conv_at_op_level_improve_perf: four cores of 350 tiles each), to forward ops of
programs that have no backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects.epoch_types import EPOCH_TYPES, epoch_type
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import like, make, shape_of
from opscope.compiler.ir.functions import functions
from opscope.compiler.target.formats import TILE
from opscope.compiler.translations.ttir_to_graph.arguments import parameters
from opscope.compiler.translations.ttir_to_graph.hosts import host_values

MOST_ROWS = 1_400
"""Rows of tiles that a convolution's gather may have in one op: output pixels in tiles, times kernel taps."""


@dataclass(frozen=True)
class TtirConvFracture(ModulePass):
    """Fractures convolutions whose weights the host holds. With `all_inputs` no argument counts as a parameter."""

    name = "ttir-conv-fracture"
    all_inputs: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for func in functions(op):
            block = func.body.blocks[0]
            if any(epoch_type(inner) != EPOCH_TYPES[0] for inner in block.ops):
                continue
            on_host = host_values(block, parameters(block, self.all_inputs))
            for conv in list(block.ops):
                if (
                    isinstance(conv, RowOp)
                    and conv.ROW.ttir == "conv2d"
                    and conv.operands[1] in on_host
                    and worth(conv)
                ):
                    _fracture(conv, block)


def worth(conv: RowOp) -> bool:
    """Whether the convolution's gather is larger than TT-Buda leaves in one op."""
    attrs = conv.read()
    if attrs["groups"] != 1 or attrs.get("batch_groups", 1) != 1 or len(conv.operands) > 2:
        return False
    height, width = shape_of(conv.operands[1])[:2]
    _, rows, cols, _ = shape_of(conv.results[0])
    return height > 1 and -(-rows * cols // TILE) * height * width > MOST_ROWS


def _fracture(conv: RowOp, block: Block) -> None:
    """Replaces the convolution by one per kernel row, added in pairs."""
    image, weights = conv.operands
    attrs = conv.read()
    top, bottom, left, right = attrs["padding"]
    dilation = attrs["dilation"][0]
    height, *rest = shape_of(weights)
    parts: list[SSAValue] = []
    for row in range(height):
        cut = make(
            "slice_static",
            [weights],
            like(weights, (1, *rest)),
            conv,
            begins=(row, 0, 0, 0),
            ends=(row + 1, *rest),
            step=(1,) * 4,
        )
        # The row alone reads where it read before: padding above shrinks by the rows over it, and may be negative.
        over, under = row * dilation, (height - 1 - row) * dilation
        edges = (top - over, bottom - under, left, right)
        part = make("conv2d", [image, cut.results[0]], conv.results[0].type, conv, **{**attrs, "padding": edges})
        block.insert_ops_before([cut, part], conv)
        parts.append(part.results[0])
    while len(parts) > 1:
        first, second, *parts = parts
        both = make("add", [first, second], conv.results[0].type, conv)
        block.insert_op_before(both, conv)
        parts.append(both.results[0])
    conv.results[0].replace_all_uses_with(parts[0])
    block.erase_op(conv)
