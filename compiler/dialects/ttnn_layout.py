"""Attributes of the ttnn dialect: place and format of a tensor, and how a kernel computes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, Self, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntAttr, MemRefType, NoneAttr, StringAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from opscope.compiler.dialects.ttcore import TILE, TileType, WordAttr
from opscope.compiler.ops.codec import I64S
from opscope.compiler.ops.element_text import element_text
from opscope.compiler.ops.shape_attribute import ShapeAttr

FIDELITIES = {name.lower(): name for name in ("LoFi", "HiFi2", "HiFi3", "HiFi4")}
"""ttnn's spelling -> spelling in the binary."""


@irdl_attr_definition
class BufferTypeAttr(WordAttr):
    """dram, l1 or system_memory."""

    name = "ttnn.buffer_type"


@irdl_attr_definition
class TensorMemoryLayoutAttr(WordAttr):
    """interleaved, height_sharded, width_sharded or block_sharded."""

    name = "ttnn.tensor_memory_layout"


@irdl_attr_definition
class LayoutAttr(WordAttr):
    """row_major or tile."""

    name = "ttnn.layout"


class PairAttr(ParametrizedAttribute):
    """Two integers written `<8x8>`."""

    shape: Attribute

    @classmethod
    def of(cls, first: int, second: int) -> Self:
        """The attribute of these two integers."""
        return cls.new([I64S.encode((first, second))])

    @property
    def pair(self) -> tuple[int, int]:
        """The two integers."""
        first, second = I64S.decode(self.shape)
        return first, second

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<8x8>`."""
        printer.print_string("<{}x{}>".format(*self.pair))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses `<8x8>`."""
        with parser.in_angle_brackets():
            first = parser.parse_integer()
            parser.parse_shape_delimiter()
            return [I64S.encode((first, parser.parse_integer()))]


@irdl_attr_definition
class GridAttr(PairAttr):
    """Rows and columns of cores: `#ttcore.grid<8x8>`; inside a layout just `<8x8>`."""

    name = "ttcore.grid"


class SpacedPairAttr(PairAttr, SpacedOpaqueSyntaxAttribute):
    """Two integers that tt-mlir writes behind their name: `#ttnn<mesh_shape 1x1>`."""

    def print_parameters(self, printer: Printer) -> None:
        """Prints `1x1`."""
        printer.print_string("{}x{}".format(*self.pair))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses `1x1`, or `<1x1>` of older texts of this compiler."""
        brackets = parser.parse_optional_punctuation("<") is not None
        first = parser.parse_shape_dimension(allow_dynamic=False)  # 0x0 is no hexadecimal number here
        parser.parse_shape_delimiter()
        second = parser.parse_shape_dimension(allow_dynamic=False)
        if brackets:
            parser.parse_punctuation(">")
        return [I64S.encode((first, second))]


@irdl_attr_definition
class MeshShapeAttr(SpacedPairAttr):
    """Chips of the device: `#ttnn<mesh_shape 1x1>`."""

    name = "ttnn.mesh_shape"


@irdl_attr_definition
class MeshOffsetAttr(SpacedPairAttr):
    """The device's first chip: `#ttnn<mesh_offset 0x0>`."""

    name = "ttnn.mesh_offset"


@irdl_attr_definition
class MemoryConfigAttr(ParametrizedAttribute):
    """Target of a move: `#ttnn.memory_config<#ttnn.buffer_type<dram>, <interleaved>>`."""

    name = "ttnn.memory_config"
    buffer_type: BufferTypeAttr
    memory_layout: TensorMemoryLayoutAttr

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<#ttnn.buffer_type<dram>, <interleaved>>`."""
        printer.print_string(f"<{self.buffer_type}, <{self.memory_layout.word.data}>>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses what `print_parameters` prints."""
        with parser.in_angle_brackets():
            buffer = parser.parse_attribute()
            parser.parse_punctuation(",")
            return [buffer, TensorMemoryLayoutAttr.new(TensorMemoryLayoutAttr.parse_parameters(parser))]


@irdl_attr_definition
class ComputeConfigAttr(ParametrizedAttribute):
    """How a kernel computes: `#ttnn.device_compute_kernel_config<math_fidelity = hifi4, fp32_dest_acc_en = true>`.

    `math_approx_mode = true` stands between the two where functions are approximate, and `packer_l1_acc = true` at the
    end where a product's blocks are added in L1.
    """

    name = "ttnn.device_compute_kernel_config"
    math_fidelity: StringAttr
    fp32_dest_acc_en: StringAttr
    math_approx_mode: StringAttr
    packer_l1_acc: StringAttr

    def print_parameters(self, printer: Printer) -> None:
        """Prints the fields."""
        fidelity, dest = self.math_fidelity.data, self.fp32_dest_acc_en.data
        approx = "math_approx_mode = true, " if self.math_approx_mode.data == "true" else ""
        added = ", packer_l1_acc = true" if self.packer_l1_acc.data == "true" else ""
        printer.print_string(f"<math_fidelity = {fidelity}, {approx}fp32_dest_acc_en = {dest}{added}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses what `print_parameters` prints."""
        with parser.in_angle_brackets():
            parser.parse_keyword("math_fidelity")
            parser.parse_punctuation("=")
            fidelity = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            approx = StringAttr("false")
            if parser.parse_optional_keyword("math_approx_mode") is not None:
                parser.parse_punctuation("=")
                approx = StringAttr(parser.parse_identifier())
                parser.parse_punctuation(",")
            parser.parse_keyword("fp32_dest_acc_en")
            parser.parse_punctuation("=")
            dest, added = StringAttr(parser.parse_identifier()), StringAttr("false")
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("packer_l1_acc")
                parser.parse_punctuation("=")
                added = StringAttr(parser.parse_identifier())
            return [fidelity, dest, approx, added]


@irdl_attr_definition
class TTNNLayoutAttr(ParametrizedAttribute):
    """Encoding of a ttnn tensor: map of its dims to a matrix, grid of cores, the shard in memory, and its distribution.

    `#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<4x8x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>,
    <interleaved>>`; host tensors have no last part and scalar elements.
    """

    name = "ttnn.ttnn_layout"
    linear: AffineMapAttr
    grid: GridAttr
    memref: MemRefType
    memory_layout: TensorMemoryLayoutAttr | NoneAttr

    @property
    def buffer_type(self) -> str:
        """dram, l1 or system_memory."""
        return cast(BufferTypeAttr, self.memref.memory_space).word.data

    @property
    def spread(self) -> str:
        """interleaved, height_sharded, width_sharded or block_sharded; host tensors count as interleaved."""
        return self.memory_layout.word.data if isinstance(self.memory_layout, TensorMemoryLayoutAttr) else "interleaved"

    @property
    def layout(self) -> str:
        """tile or row_major."""
        return "tile" if isinstance(self.memref.element_type, TileType) else "row_major"

    @property
    def data_type(self) -> str:
        """ttcore data type of the elements: f32, bfp_bf8, si32, ..."""
        element: Any = self.memref.element_type
        return element.data_type.data if isinstance(element, TileType) else element_text(element)

    def print_parameters(self, printer: Printer) -> None:
        """Prints the attribute as tt-mlir does, without aliases."""
        grid = "<{}x{}>".format(*self.grid.pair)
        printer.print_string(f"<{self.linear.data}, {grid}, {self.memref}")
        if isinstance(self.memory_layout, TensorMemoryLayoutAttr):
            printer.print_string(f", <{self.memory_layout.word.data}>")
        printer.print_string(">")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses what `print_parameters` prints."""
        with parser.in_angle_brackets():
            linear = AffineMapAttr(parser.parse_affine_map())
            parser.parse_punctuation(",")
            grid = GridAttr.new(GridAttr.parse_parameters(parser))
            parser.parse_punctuation(",")
            memref = parser.parse_type()
            spread: Attribute = NoneAttr()
            if parser.parse_optional_punctuation(","):
                spread = TensorMemoryLayoutAttr.new(TensorMemoryLayoutAttr.parse_parameters(parser))
            return [linear, grid, memref, spread]


ATTRIBUTES = [
    BufferTypeAttr,
    TensorMemoryLayoutAttr,
    LayoutAttr,
    GridAttr,
    MeshShapeAttr,
    MeshOffsetAttr,
    ShapeAttr,
    MemoryConfigAttr,
    ComputeConfigAttr,
    TTNNLayoutAttr,
]


def _linear(shape: tuple[int, ...], tiled: bool) -> tuple[AffineMap, tuple[int, int]]:
    """Returns the affine map that folds all dims but the last into rows, and the matrix size, padded to tiles."""
    if not shape:
        zero = AffineExpr.constant(0)
        return AffineMap(0, 0, (zero, zero)), (TILE, TILE) if tiled else (1, 1)
    pad = TILE if tiled else 1
    rows = list(shape[:-1])
    if rows:
        rows[-1] = -(-rows[-1] // pad) * pad
    width = -(-shape[-1] // pad) * pad
    expr: AffineExpr | None = None
    for i in range(len(rows)):
        stride = prod(rows[i + 1 :])
        term = AffineDimExpr(i) if stride == 1 else AffineDimExpr(i) * AffineConstantExpr(stride)
        expr = term if expr is None else expr + term
    last = AffineDimExpr(len(shape) - 1)
    height = prod(rows) if rows else pad
    return AffineMap(len(shape), 0, (expr if expr is not None else AffineConstantExpr(0), last)), (height, width)


def _memref(element: Attribute, shape: tuple[int, ...], buffer_type: str) -> MemRefType:
    """A memref in a buffer. Its own constructor asks what kind of shape it gets, which takes longer than all else."""
    sizes = ArrayAttr([IntAttr(size) for size in shape])
    return MemRefType.new([sizes, element, NoneAttr(), BufferTypeAttr.of(buffer_type)])


@lru_cache(maxsize=4096)
def host_layout(shape: tuple[int, ...], element: Attribute) -> TTNNLayoutAttr:
    """Returns a row-major layout on the host, in the element type itself."""
    linear, matrix = _linear(shape, tiled=False)
    memref = _memref(element, matrix, "system_memory")
    return TTNNLayoutAttr(AffineMapAttr(linear), GridAttr.of(1, 1), memref, NoneAttr())


@lru_cache(maxsize=4096)
def tile_layout(shape: tuple[int, ...], data_type: str, buffer_type: str = "dram") -> TTNNLayoutAttr:
    """Returns a tiled layout in `data_type` (ttcore's word), interleaved on the device or on the host."""
    linear, (height, width) = _linear(shape, tiled=True)
    tiles = (-(-height // TILE), -(-width // TILE))
    memref = _memref(TileType(StringAttr(data_type)), tiles, buffer_type)
    spread: Attribute = NoneAttr() if buffer_type == "system_memory" else TensorMemoryLayoutAttr.of("interleaved")
    return TTNNLayoutAttr(AffineMapAttr(linear), GridAttr.of(1, 1), memref, cast(Any, spread))


@lru_cache(maxsize=4096)
def sharded_layout(shape: tuple[int, ...], data_type: str, spread: str, grid: tuple[int, int]) -> TTNNLayoutAttr:
    """Returns a tiled layout in L1 of equal shards; `spread` is height_, width_ or block_sharded."""
    linear, (height, width) = _linear(shape, tiled=True)
    rows, columns = -(-height // TILE), -(-width // TILE)
    shard = (-(-rows // grid[0]), -(-columns // grid[1]))
    memref = _memref(TileType(StringAttr(data_type)), shard, "l1")
    return TTNNLayoutAttr(AffineMapAttr(linear), GridAttr.of(*grid), memref, TensorMemoryLayoutAttr.of(spread))


def layout_of(value: Any) -> TTNNLayoutAttr | None:
    """Returns the layout of a tensor value; None if its type has none."""
    kind = value.type
    encoding = kind.encoding if isinstance(kind, TensorType) else None
    return encoding if type(encoding) is TTNNLayoutAttr else None
