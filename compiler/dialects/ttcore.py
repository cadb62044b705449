"""The ttcore dialect, shared by ttir and ttnn, in the words and text of tt-mlir."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, var_operand_def, var_result_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

TILE = 32
"""Edge of a tile in elements."""


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    """A 32x32 tile in a device data type: `!ttcore.tile<32x32, bfp_bf8>`."""

    name = "ttcore.tile"
    data_type: StringAttr

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<32x32, f32>`."""
        printer.print_string(f"<{TILE}x{TILE}, {self.data_type.data}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses `<32x32, f32>`; other tile sizes are not supported."""
        with parser.in_angle_brackets():
            edges = [parser.parse_integer(), 0]
            parser.parse_shape_delimiter()
            edges[1] = parser.parse_integer()
            if edges != [TILE, TILE]:
                parser.raise_error(f"ttcore.tile: expected 32x32, got {edges[0]}x{edges[1]}")
            parser.parse_punctuation(",")
            return [StringAttr(parser.parse_identifier())]


class WordAttr(ParametrizedAttribute):
    """An enum attribute of one word: `#ttnn.buffer_type<dram>`."""

    word: StringAttr

    @classmethod
    def of(cls, word: str) -> Self:
        """The attribute of this word."""
        return cls.new([StringAttr(word)])

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<word>`."""
        printer.print_string(f"<{self.word.data}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses `<word>`."""
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_identifier())]


@irdl_attr_definition
class ArgumentTypeAttr(WordAttr):
    """The kind of an argument of the entry: `#ttcore.argument_type<parameter>`."""

    name = "ttcore.argument_type"


@irdl_attr_definition
class ReduceTypeAttr(WordAttr):
    """How an op joins values: `#ttcore.reduce_type<sum>`; `invalid` where the new value replaces the old."""

    name = "ttcore.reduce_type"


@irdl_attr_definition
class MaskTypeAttr(WordAttr):
    """The mask of an attention: `#ttcore.attention_mask_type<causal>`."""

    name = "ttcore.attention_mask_type"


@irdl_attr_definition
class ShardDirectionAttr(WordAttr):
    """Whether parts are made of a whole tensor or joined to one: `#ttcore.shard_direction<full_to_shard>`."""

    name = "ttcore.shard_direction"


@irdl_attr_definition
class ShardTypeAttr(WordAttr):
    """Whether devices have parts or each has all: `#ttcore.shard_type<devices>`, `replicate`."""

    name = "ttcore.shard_type"


@irdl_op_definition
class OptimizationBarrierOp(IRDLOperation):
    """`ttcore.optimization_barrier` hands its operands on, past which tt-mlir moves nothing."""

    name = "ttcore.optimization_barrier"
    inputs = var_operand_def()
    outputs = var_result_def()


TTCORE = Dialect(
    "ttcore",
    [OptimizationBarrierOp],
    [TileType, ArgumentTypeAttr, ReduceTypeAttr, MaskTypeAttr, ShardDirectionAttr, ShardTypeAttr],
)
