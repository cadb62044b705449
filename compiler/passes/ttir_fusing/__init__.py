"""Pass `ttir-fusing`: replaces ops that one kernel can compute together by that kernel's op.

Each pattern is a rule that starts at the pattern's last op and returns the ops in its place.
Rules expect the forms that `canonicalize` and `ttir-implicit-broadcast-fold` leave. A rule of a single op gives it the
name that tt-mlir has for that form. A fused kernel keeps values in Dst that the single ops would have rounded to their
formats on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.transforms.dead_code_elimination import region_dce

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.locations import mark_parts
from opscope.compiler.ir.functions import SCALAR, functions, kind_of
from opscope.compiler.passes.ttir_fusing import (  # noqa: F401 - each fills RULES
    activations,
    attention,
    convolutions,
    data_movement,
    norm,
    reductions,
    rotary,
)
from opscope.compiler.passes.ttir_fusing.matching import RULES
from opscope.compiler.passes.ttir_fusing.typecast import Typecasts


@dataclass(frozen=True)
class TtirFusing(ModulePass):
    """Makes `linear` and `conv2d` with a bias, `softmax`, `layer_norm`, `rms_norm`, `gelu` (both forms), `silu`,
    `sigmoid`, `mean`, `relu`, `rotary_embedding` (JAX's, ONNX's, PyTorch's), `scaled_dot_product_attention` (also with
    heads that share keys, and `jax.nn.dot_product_attention`'s dims) and its `_decode` form for one position; names
    `embedding`, `argmax`, `cumsum`, `update_cache`, `fill_cache`. Leaves conversions between float formats to unpacker
    and packer.

    In all functions except those of scalars.
    """

    name = "ttir-fusing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place and removes ops that only fused ops read."""
        for func in functions(op):
            if kind_of(func) != SCALAR:
                for pattern in (_Fuse(), Typecasts(), _Fuse()):
                    PatternRewriteWalker(pattern, post_walk_func=region_dce).rewrite_region(func.body)


class _Fuse(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Applies the first rule of the op that matches."""
        if not isinstance(op, RowOp) or not op.name.startswith("ttir."):
            return
        for rule in RULES.get(op.ROW.ttir, ()):
            ops = rule(op)
            if ops:
                mark_parts((part for part in ops[:-1] if part.location == op.location), ())
                last = ops[-1:] if len(ops[-1].results) == len(op.results) else ops[-len(op.results) :]
                rewriter.replace(op, ops, [result for part in last for result in part.results])
                return
