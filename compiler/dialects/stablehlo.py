"""The stablehlo and chlo dialects in xDSL: one op class per row name, and their attributes kept as written."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, BuiltinAttribute, Dialect, Operation, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.printer import Printer

from opscope.compiler.dialects.from_row import spec_op_class
from opscope.compiler.ops.row import TABLE, OpRow


@irdl_attr_definition
class SpecAttr(ParametrizedAttribute, BuiltinAttribute):
    """An attribute of the stablehlo or chlo dialect: its MLIR text, and its fields if they could be read.
    `#stablehlo.dot<lhs_contracting_dimensions = [1], ...>` has the fields of that name as lists of integers;
    an enum such as `#stablehlo<comparison_direction LT>` has one field, `value`.
    """

    name = "stablehlo.attr"
    text: StringAttr
    fields_: DictionaryAttr

    def print_builtin(self, printer: Printer) -> None:
        """Prints the attribute as jaxlib wrote it."""
        printer.print_string(self.text.data)

    def ints(self, field: str) -> tuple[int, ...]:
        """Returns a field that is a list of integers; empty if it is not set."""
        value = self.fields_.data.get(field)
        return tuple(int(v.value.data) for v in value.data) if isinstance(value, ArrayAttr) else ()

    def int(self, field: str) -> int:
        """Returns a field that is one integer."""
        (value,) = self.ints(field)
        return value

    @property
    def value(self) -> str:
        """Returns the word of an enum attribute."""
        word = self.fields_.data["value"]
        return word.data if isinstance(word, StringAttr) else str(word)


def spec_attr(text: str, fields: dict[str, Any]) -> SpecAttr:
    """Returns a SpecAttr of `text`; fields are words, integers or lists of integers."""
    encoded: dict[str, Attribute] = {}
    for key, value in fields.items():
        if isinstance(value, str):
            encoded[key] = StringAttr(value)
        else:
            values = [value] if isinstance(value, int) else list(value)
            encoded[key] = ArrayAttr([IntegerAttr(int(v), i64) for v in values])
    return SpecAttr(StringAttr(text), DictionaryAttr(encoded))


CLASSES: dict[str, type[IRDLOperation]] = {}
"""Full op name -> class, for every row; grows with `register`."""


def _add(row: OpRow) -> None:
    if row.stablehlo and row.stablehlo not in CLASSES:
        CLASSES[row.stablehlo] = spec_op_class(row.stablehlo)


TABLE.listen(_add)


def dialect(name: str) -> Dialect:
    """The xDSL dialect `stablehlo` or `chlo`."""
    ops: list[type[Operation]] = [cls for full, cls in CLASSES.items() if full.startswith(f"{name}.")]
    return Dialect(name, ops, [SpecAttr] if name == "stablehlo" else [])
