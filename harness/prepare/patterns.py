"""What compilers fuse, as shapes of ops: the table behind `--workflow patterns`.

A shape is the name of an op and, in brackets, what its operands come from, in any order: `divide(exponential, reduce)`.
`a|b` is either op, `eltwise` any elementwise one. Between an op and its operand there may be moves and casts, which
compilers look through; after `~` also elementwise ops. Numbers and dims are not part of a shape: a sum divided by
another number than its length, which no compiler may take for a mean, is a piece too.

Each row names who fuses it: rules of the reference (`reference: softmax`), which tests let fire on what the row finds,
patterns of tt-mlir (lib/Dialect, at 19c86fca), passes of XLA's CPU compiler, flags of IREE's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from opscope.base.op_families import ELTWISE, op_family
from opscope.harness.prepare.program import Node

MOVES = frozenset(f"stablehlo.{name}" for name in ("broadcast_in_dim", "convert", "reshape", "slice", "transpose"))
"""Ops between an op and its operand that compilers look through."""


def is_move(node: Node) -> bool:
    """Whether an op only moves or casts what it reads."""
    return node.name in MOVES


def is_elementwise(node: Node) -> bool:
    """Whether each element of an op's result comes from those at its place, or the op is a move."""
    return is_move(node) or node.name == "stablehlo.select" or op_family(node.name) == ELTWISE


def is_light(node: Node) -> bool:
    """Whether compilers fuse others over an op: an elementwise one, a move or a reduction."""
    return is_elementwise(node) or node.name == "stablehlo.reduce"


@dataclass(frozen=True)
class Shape:
    """Ops that read one another."""

    names: frozenset[str]
    """Of the last of them, without the dialect."""
    operands: tuple[Shape, ...] = ()
    far: bool = False
    """Whether elementwise ops may lie between it and its reader."""

    def is_last(self, node: Node) -> bool:
        """Whether an op can be the last one of the shape."""
        return node.name.partition(".")[2] in self.names or (ELTWISE in self.names and op_family(node.name) == ELTWISE)


@dataclass(frozen=True)
class Pattern:
    """One kind of fusion."""

    name: str
    text: str
    fused_by: str
    """Whose rules, passes or flags do it."""
    side_by_side: bool = False
    """Whether it joins several of these that read one value, with the moves of their results."""
    chain: bool = False
    """Whether all elementwise ops come along that lead into the shape and nowhere else."""

    @cached_property
    def shape(self) -> Shape:
        """The shape that the text writes."""
        words = iter(re.findall(r"~|[\w|]+|[(),]", self.text))
        shape, after = _read(words, next(words))
        assert not after, self.text
        return shape


def _read(words: Iterator[str], word: str) -> tuple[Shape, str]:
    """A shape that begins with `word`, and the word after it."""
    far = word == "~"
    names = frozenset((next(words) if far else word).split("|"))
    operands: list[Shape] = []
    after = next(words, "")
    if after == "(":
        while after != ")":
            operand, after = _read(words, next(words))
            operands.append(operand)
        after = next(words, "")
    return Shape(names, tuple(operands), far), after


_DOT = "dot_general"
_ROOT = "~rsqrt|sqrt"
_NORM = f"multiply|divide(~subtract(~reduce), {_ROOT}(~reduce(multiply|power|square(~subtract(~reduce)))))"

PATTERNS = (
    Pattern(
        "attention",
        f"{_DOT}(~divide(exponential(subtract(~{_DOT}, ~reduce)), ~reduce(exponential)))",
        "reference: attention; tt-mlir: SDPA of TTIR and TTNN fusing",
    ),
    Pattern(
        "softmax",
        "divide(~exponential(~reduce), ~reduce(exponential))",
        "reference: softmax; tt-mlir: Softmax, NumericStableSoftmax; XLA: fusion",
        chain=True,
    ),
    Pattern(
        "softmax",
        "divide(~exponential, ~reduce(exponential))",
        "reference: softmax; tt-mlir: Softmax, NumericStableSoftmax; XLA: fusion",
        chain=True,
    ),
    Pattern(
        "norm",
        f"eltwise(~{_NORM})",
        "reference: normalised, weighted, shifted; tt-mlir: layer norm, group norm",
    ),
    Pattern(
        "norm",
        _NORM,
        "reference: normalised; tt-mlir: layer norm, group norm",
    ),
    Pattern(
        "norm_of_squares",
        f"eltwise({_ROOT}(~reduce(multiply|power|square)))",
        "reference: normalised, weighted; tt-mlir: RMSNorm, NormalizeRMSNorm",
    ),
    Pattern(
        "gelu",
        "multiply(~erf|erfc|tanh)",
        "reference: gelu; tt-mlir: Gelu",
        chain=True,
    ),
    Pattern(
        "silu",
        "multiply(logistic|divide)",
        "reference: sigmoid, silu; tt-mlir: Silu, Mish",
        chain=True,
    ),
    Pattern(
        "sigmoid",
        "divide(add(exponential))",
        "reference: sigmoid; XLA: algsimp",
        chain=True,
    ),
    Pattern(
        "hardsigmoid",
        "divide|multiply(maximum|minimum|clamp(add))",
        "tt-mlir: Hardsigmoid, Relu6",
        chain=True,
    ),
    Pattern(
        "rotary_halves",
        "concatenate(subtract(multiply, multiply), add(multiply, multiply))",
        "reference: halves; tt-mlir: RoPE, complex and interleaved",
    ),
    Pattern(
        "rotary",
        "add(multiply, multiply(concatenate(~slice, ~slice)))",
        "reference: turned; tt-mlir: RoPE rotate-half",
    ),
    Pattern(
        "mean",
        "divide|multiply(reduce|reduce_window)",
        "reference: mean; tt-mlir: ScaledSumToMean",
    ),
    Pattern(
        "mean_of_mean",
        "divide|multiply(reduce(divide|multiply|reduce))",
        "tt-mlir: SpatialMean",
    ),
    Pattern(
        "reduction_in_another_shape",
        "reshape|broadcast_in_dim|transpose(reduce)",
        "tt-mlir: ReductionWithReshape; XLA: reshape-mover, layout-assignment",
    ),
    Pattern(
        "product_and_after",
        f"eltwise(~{_DOT}|convolution)",
        "reference: bias, scaled, lowered, raised, relu, ttnn-fusing; tt-mlir: MatmulWithBias, ConvAddBias, "
        "ConvWithMultiply, BatchNormDecomposition, matmul, linear and conv with activation; XLA: fusion",
    ),
    Pattern(
        "product_and_before",
        f"{_DOT}|convolution(eltwise)",
        "tt-mlir: D2M generics; XLA: dot-library-rewriter; IREE: --iree-dispatch-creation-enable-fuse-padding",
    ),
    Pattern(
        "sum_of_products",
        f"add(~{_DOT}|convolution, ~{_DOT}|convolution)",
        "tt-mlir: RepVGGConvSum",
    ),
    Pattern(
        "padded",
        "convolution|reduce_window(pad)",
        "tt-mlir: PadConv3d; XLA: algsimp; IREE: pad into consumer",
    ),
    Pattern(
        "moved_there_and_back",
        "transpose(~transpose)",
        "reference: ttir-erase-inverse-ops; tt-mlir: EraseInverseOps; IREE: transposes propagated",
    ),
    Pattern(
        "moved_and_computed",
        "eltwise(transpose|reshape)",
        "reference: ttir-erase-inverse-ops; tt-mlir: EraseInverseOps; XLA: reshape-mover, layout-assignment",
        chain=True,
    ),
    Pattern(
        "reshaped_there_and_back",
        "reshape(~reshape)",
        "reference: ttir-erase-inverse-ops; tt-mlir: EraseInverseOps, ReshapeBroadcastReshape, ConcatenateHeads",
    ),
    Pattern(
        "product_of_moved",
        f"{_DOT}(transpose|reshape|broadcast_in_dim)",
        "reference: ttir-erase-inverse-ops; tt-mlir: PermuteMatmul; XLA: dot_decomposer",
    ),
    Pattern(
        "moved_product",
        f"slice|reshape|transpose({_DOT})",
        "tt-mlir: PermuteSliceAfterMatmul, ConcatenateHeads",
    ),
    Pattern(
        "argmax",
        "reduce(iota)",
        "reference: argmax; tt-mlir: argmax",
    ),
    Pattern(
        "top_k",
        "slice(sort)",
        "tt-mlir: TopK",
    ),
    Pattern(
        "cumulated",
        "eltwise(reduce_window)",
        "reference: cumsum; XLA: fusion",
    ),
    Pattern(
        "rows_of_a_table",
        "eltwise|reshape(~gather)",
        "reference: embedding; tt-mlir: reshape+gather; XLA: fusion",
    ),
    Pattern(
        "cache",
        "scatter|dynamic_update_slice(eltwise|dot_general|transpose|reshape)",
        "reference: written; tt-mlir: ConsolidateStaticCacheUpdates, update_cache, fill_cache; XLA: copy-insertion",
    ),
    Pattern(
        "products_of_one_value",
        _DOT,
        "tt-mlir: SharedLHSMatmul, SplitQKV, NLPCreateQKVHeadsDecode; IREE: horizontal contractions",
        side_by_side=True,
    ),
    Pattern(
        "parts_of_one_value",
        "slice",
        "tt-mlir: SplitQKV, chunked projections; XLA: fusion with several results",
        side_by_side=True,
    ),
    Pattern(
        "reductions_of_one_value",
        "reduce",
        "tt-mlir: D2M reductions; XLA: fusion with several results",
        side_by_side=True,
    ),
    Pattern(
        "elementwise",
        "eltwise(eltwise)",
        "tt-mlir: TTNNCreateD2MSubgraphs; XLA: fusion; IREE: aggressive fusion",
        chain=True,
    ),
)
"""In the order in which a piece that several rows find gets its name."""
