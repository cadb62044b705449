"""Pass `ttnn-fusing`: a product's kernel computes the activation that follows, in Dst (attribute `activation`)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.target.formats import number_format

ACTIVATIONS = frozenset({"relu", "gelu", "silu", "sigmoid", "tanh"})
"""Elementwise ops that a product's kernel can do itself."""
PRODUCTS = frozenset({"matmul", "linear", "conv2d"})


@dataclass(frozen=True)
class TtnnFusing(ModulePass):
    """Fuses an activation into a product that only it reads."""

    name = "ttnn-fusing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for inner in list(op.walk()):
            if isinstance(inner, RowOp) and inner.name.startswith("ttnn.") and inner.ROW.ttir in ACTIVATIONS:
                _fuse(inner)


def _fuse(op: RowOp) -> None:
    (value,), (result,) = op.operands, op.results
    product = value.owner
    if not isinstance(product, RowOp) or product.ROW.ttir not in PRODUCTS or "activation" in product.properties:
        return
    if not value.has_one_use() or value.type != result.type or not _is_float(op):
        return
    product.properties["activation"] = StringAttr(_activation(op))
    # The product now makes the activation's value.
    product.location = op.location
    result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def _activation(op: RowOp) -> str:
    approximate = op.read().get("approximate")
    return f"{op.ROW.ttir}_{approximate}" if approximate else op.ROW.ttir


def _is_float(op: Operation) -> bool:
    encoding = layout.layout_of(op.results[0])
    return encoding is not None and number_format(encoding.data_type).is_float
