"""Pass `ttir-conv-prestride`: the host rearranges the image of a strided convolution (space to depth).

Each block of `stride` x `stride` pixels becomes one pixel with the channels of all of them, so that the convolution
steps by one: ResNet-50's 7x7 windows of 3 channels with stride 2 become 4x4 windows of 12 channels. The weights get
zeros where a window's edge lies inside a block, and are rearranged likewise; the host does this once.

As in TT-Buda (`enable_conv_prestride`; tt-buda: pybuda/op/eval/sparse_utils.py, can_conv2d_prestride and
does_prestriding_improve_perf): square strides over 1, no groups, no dilation, an image that comes from the host, and
fewer products of tiles afterwards, counted over the pixels of the image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.buda.graph import NodeKind, TensorShape
from opscope.compiler.dialects.epoch_types import EPOCH_TYPES, epoch_type
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import like, make, shape_of
from opscope.compiler.ir.functions import functions
from opscope.compiler.translations.ttir_to_graph.arguments import parameters
from opscope.compiler.translations.ttir_to_graph.hosts import host_values


@dataclass(frozen=True)
class TtirConvPrestride(ModulePass):
    """Rearranges images and weights. With `all_inputs` no argument counts as a parameter."""

    name = "ttir-conv-prestride"
    all_inputs: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for func in functions(op):
            block = func.body.blocks[0]
            on_host = host_values(block, parameters(block, self.all_inputs))
            for conv in list(block.ops):
                if isinstance(conv, RowOp) and conv.ROW.ttir == "conv2d":
                    strided = Strided.of(conv, on_host)
                    if strided is not None and strided.pays:
                        strided.rewrite(conv)


@dataclass(frozen=True)
class Axis:
    """Rows or columns of a strided convolution, in pixels, and what they become, in blocks of `stride` pixels."""

    size: int
    kernel: int
    stride: int
    low: int
    out: int

    @property
    def blocks_low(self) -> int:
        """Blocks of padding before the image: the first window starts in the first of them."""
        return -(-self.low // self.stride)

    @property
    def shift(self) -> int:
        """Zeros before the weights: pixels from the start of a block to where a window starts."""
        return self.blocks_low * self.stride - self.low

    @property
    def taps(self) -> int:
        """Blocks that a window touches."""
        return -(-(self.shift + self.kernel) // self.stride)

    @property
    def blocks(self) -> int:
        """Blocks of the image: all of it, or what the windows read if that is less."""
        return min(-(-self.size // self.stride), self.out - 1 + self.taps - self.blocks_low)

    @property
    def blocks_high(self) -> int:
        """Blocks of padding behind the image; then there are as many windows as before."""
        return self.out - 1 + self.taps - self.blocks_low - self.blocks


@dataclass(frozen=True)
class Strided:
    """A convolution that the host may prestride."""

    rows: Axis
    cols: Axis
    channels: int
    filters: int

    @classmethod
    def of(cls, conv: RowOp, on_host: Mapping[SSAValue, NodeKind]) -> Strided | None:
        """Returns the convolution; None if TT-Buda would not prestride it, however much it saved."""
        attrs = conv.read()
        image, weights = conv.operands[:2]
        stride = tuple(attrs["stride"])
        ones = (*attrs["dilation"], *attrs.get("input_dilation", ()), attrs["groups"], attrs.get("batch_groups", 1))
        from_host = on_host.get(image) is NodeKind.INPUT and weights in on_host
        if not from_host or stride[0] != stride[1] or stride[0] < 2 or any(one != 1 for one in ones):
            return None
        if epoch_type(conv) != EPOCH_TYPES[0]:
            return None
        (_, *size, channels), (*kernel, _, filters) = shape_of(image), shape_of(weights)
        top, _, left, _ = attrs["padding"]
        out = shape_of(conv.results[0])[1:3]
        if min(out) < 1:
            return None
        rows, cols = (Axis(size[a], kernel[a], stride[a], low, out[a]) for a, low in enumerate((top, left)))
        return cls(rows, cols, channels, filters) if min(rows.blocks, cols.blocks) > 0 else None

    @property
    def pays(self) -> bool:
        """Whether it takes fewer products of tiles: pixels x taps' channels x filters, as TT-Buda counts them."""
        rows, cols, stride = self.rows, self.cols, self.rows.stride
        pixels = rows.size * cols.size
        blocks = -(-rows.size // stride) * -(-cols.size // stride)
        before = TensorShape.of((pixels, self.channels)).tiles * rows.kernel * cols.kernel
        return TensorShape.of((blocks, self.channels * stride * stride)).tiles * rows.taps * cols.taps < before

    def rewrite(self, conv: RowOp) -> None:
        """Replaces the convolution by one that steps by one, over the host's rearrangement of image and weights."""
        image, weights = conv.operands[:2]
        axes, stride = (self.rows, self.cols), self.rows.stride
        emit = _Emitter(conv)
        # A block of rows holds a block of columns of channels: rows y of a block, columns x, channels, in this order.
        batch, inner = shape_of(image)[0], self.channels * stride * stride
        spare = [(0, axis.blocks * stride - axis.size) for axis in axes]
        moved = emit.padded(image, [(0, 0), *spare, (0, 0)])
        moved = emit.reshaped(moved, (batch, axes[0].blocks, stride, axes[1].blocks, stride, self.channels))
        moved = emit.permuted(moved, (0, 1, 3, 2, 4, 5))
        moved = emit.reshaped(moved, (batch, axes[0].blocks, axes[1].blocks, inner))
        spare = [(axis.shift, axis.taps * stride - axis.shift - axis.kernel) for axis in axes]
        taps = emit.padded(weights, [*spare, (0, 0), (0, 0)])
        taps = emit.reshaped(taps, (axes[0].taps, stride, axes[1].taps, stride, self.channels, self.filters))
        taps = emit.permuted(taps, (0, 2, 1, 3, 4, 5))
        taps = emit.reshaped(taps, (axes[0].taps, axes[1].taps, inner, self.filters))
        attrs = conv.read()
        attrs["stride"] = (1, 1)
        attrs["padding"] = tuple(edge for axis in axes for edge in (axis.blocks_low, axis.blocks_high))
        new = make("conv2d", [moved, taps, *conv.operands[2:]], conv.results[0].type, conv, **attrs)
        emit.put(new)
        conv.results[0].replace_all_uses_with(new.results[0])
        emit.block.erase_op(conv)


class _Emitter:
    """Adds data movement before an op."""

    def __init__(self, op: Operation) -> None:
        assert op.parent is not None
        self.op, self.block = op, op.parent

    def put(self, new: Operation) -> SSAValue:
        """Adds one op; returns its result."""
        self.block.insert_op_before(new, self.op)
        return new.results[0]

    def padded(self, value: SSAValue, edges: Sequence[tuple[int, int]]) -> SSAValue:
        """Adds zeros, or cuts off where an edge is negative; returns the value as it is if all edges are zero."""
        if not any(edge for pair in edges for edge in pair):
            return value
        shape = [low + size + high for size, (low, high) in zip(shape_of(value), edges, strict=True)]
        flat = tuple(edge for pair in edges for edge in pair)
        return self.put(make("pad", [value], like(value, shape), self.op, padding=flat, value=0.0))

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Adds a reshape."""
        return self.put(make("reshape", [value], like(value, shape), self.op, shape=tuple(shape)))

    def permuted(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """Adds a permutation."""
        shape = shape_of(value)
        return self.put(
            make("permute", [value], like(value, [shape[i] for i in order]), self.op, permutation=tuple(order))
        )
