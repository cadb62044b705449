"""The attribute `#ttnn.shape<2x3>`, in which ttnn writes sizes and repeats that ttir writes as an array."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from opscope.compiler.ops.codec import I64S, Codec


@irdl_attr_definition
class ShapeAttr(ParametrizedAttribute):
    """One number for each dim: `#ttnn.shape<2x3>`; that of a scalar has none."""

    name = "ttnn.shape"
    numbers: Attribute

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<2x3>`."""
        printer.print_string(f"<{'x'.join(map(str, I64S.decode(self.numbers)))}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses `<2x3>` or `<>`."""
        parser.parse_punctuation("<")
        numbers: list[int] = []
        while parser.parse_optional_punctuation(">") is None:
            if numbers:
                parser.parse_shape_delimiter()
            numbers.append(parser.parse_shape_dimension(allow_dynamic=False))  # 0x3 is no hexadecimal number here
        return [I64S.encode(numbers)]


def _decoded(attr: Attribute) -> tuple[int, ...]:
    """The numbers of a shape, or of an array: older texts of this compiler have those."""
    return I64S.decode(attr.numbers if isinstance(attr, ShapeAttr) else attr)


SHAPE = Codec("#ttnn.shape", lambda numbers: ShapeAttr.new([I64S.encode(numbers)]), _decoded)
