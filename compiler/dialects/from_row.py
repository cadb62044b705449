"""Builds op classes from rows: one per row in ttir and one in ttnn, one per StableHLO name."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import Codec
from opscope.compiler.ops.element_text import element_text
from opscope.compiler.ops.row import OpRow


class RowOp(IRDLOperation):
    """Base of the ttir and ttnn ops that come from rows."""

    ROW: ClassVar[OpRow]
    PLACES: ClassVar[tuple[tuple[str, str, Codec], ...]]
    """Each attribute's name in the row, its name in the op, and how it is written there."""

    # xDSL has the same, written in Python: passes look ops up by the hundred thousand.
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        """Does nothing: xDSL's own looks for attributes with default values, which no row has."""

    def read(self) -> dict[str, Any]:
        """Returns the op's own attributes as Python values; optional ones only if they are set."""
        return read_attrs(self)

    def verify_(self) -> None:
        """Checks operand count, then the row's shape rule. Raises VerifyException naming the op."""
        row = self.ROW
        if row.arity is not None and len(self.operands) != row.arity:
            raise VerifyException(f"{self.name}: expected {row.arity} operands, got {len(self.operands)}")
        if len(self.results) != 1:
            return
        expected = (row.shape_rule or shapes.eltwise)(self, self.read())
        got = shapes.shape_of(self.results[0])
        if expected is not None and tuple(expected) != got:
            operands = ", ".join("x".join(map(str, shapes.shape_of(v))) or "scalar" for v in self.operands)
            raise VerifyException(
                f"{self.name}: expected result shape {list(expected)} from {operands}, got {list(got)}"
            )


class Canonical(HasCanonicalizationPatternsTrait):
    """The rules that xDSL's `canonicalize` applies to a ttir op, found by its name in `ttir_canonicalization.py`."""

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        """Returns the op's patterns."""
        from opscope.compiler.dialects.ttir_canonicalization import patterns_of

        return patterns_of(op.name.removeprefix("ttir."))

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        """Returns nothing, since no pattern applies to all ops."""
        return ()


def read_attrs(op: RowOp) -> dict[str, Any]:
    """Returns the attributes of `op` that its row declares. Raises VerifyException for one of another kind."""
    values: dict[str, Any] = {}
    for key, name, codec in op.PLACES:
        attr = op.properties.get(name)
        if attr is not None:
            try:
                values[key] = codec.decode(attr)
            except (AttributeError, TypeError, ValueError) as error:
                raise VerifyException(f"{op.name}: {name}: expected {codec.name}, got {attr}") from error
    return values


def for_ttnn(row: OpRow, op: Operation) -> dict[str, Attribute]:
    """Returns a ttir op's attributes as its ttnn op has them."""
    written = dict(op.properties)
    for key, (codec, size) in row.sizes_in_ttnn.items():
        written[key] = codec.encode(size(op))
    for key, place in row.in_ttnn.items():
        attr = written.pop(key.rstrip("?"), None)
        if attr is not None and place is not None:
            written[place[0]] = place[1].encode(row.attrs[key].decode(attr))
    return written


def write_attrs(row: OpRow, values: dict[str, Any]) -> dict[str, Attribute]:
    """Returns Python values as the attributes that `row` declares, without an optional one that is None."""
    return {
        key.rstrip("?"): codec.encode(value)
        for key, codec in row.attrs.items()
        if (value := values.get(key.rstrip("?"))) is not None
    }


def device_op_class(dialect: str, name: str, row: OpRow, base: type[RowOp] = RowOp) -> type[RowOp]:
    """Returns the class of `dialect.name`. ttnn ops may also carry `compute_config` and `memory_config`."""
    fields: dict[str, Any] = {
        "name": f"{dialect}.{name}",
        "__module__": __name__,
        "__doc__": f"`{dialect}.{name}`, from its row in compiler/ops.",
        "inputs": var_operand_def() if row.group == "layout" else var_operand_def(TensorType),
        "outputs": var_result_def(TensorType),
    }
    for key, _ in row.attrs_in(dialect).values():
        fields[f"attr_{key.rstrip('?')}"] = (
            opt_prop_def(Attribute, prop_name=key[:-1]) if key.endswith("?") else prop_def(Attribute, prop_name=key)
        )
    if dialect == "ttir" and row.group != "collective":  # other chips take part in it, whoever reads its result
        fields["traits"] = traits_def(Pure(), Canonical())
    if dialect == "ttnn":
        fields |= {f"attr_{key}": opt_prop_def(Attribute, prop_name=key) for key in row.sizes_in_ttnn}
        fields["compute_config"] = opt_prop_def(Attribute)
        fields["memory_config"] = opt_prop_def(Attribute)
    op_class = cast(type[RowOp], irdl_op_definition(type(_class_name(name), (base,), fields)))
    op_class.ROW = row
    op_class.PLACES = tuple(
        (key.rstrip("?"), place.rstrip("?"), codec) for key, (place, codec) in row.attrs_in(dialect).items()
    )
    return op_class


def spec_op_class(name: str) -> type[IRDLOperation]:
    """Returns the class of a StableHLO or chlo op, by full name.

    It accepts any operands, results, regions and attributes, since jaxlib's verifier has already checked them.
    """
    fields: dict[str, Any] = {
        "name": name,
        "__module__": __name__,
        "__doc__": f"`{name}` as the StableHLO specification has it.",
        "inputs": var_operand_def(),
        "outputs": var_result_def(),
        "bodies": var_region_def(),
    }
    if name == "stablehlo.return":
        fields["traits"] = traits_def(IsTerminator())
    return irdl_op_definition(type(_class_name(name.split(".")[1]), (IRDLOperation,), fields))


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_")) + "Op"


def element_of(value: SSAValue) -> str:
    """Returns the element type of a tensor value as MLIR text: f32, ui8, i1, ..."""
    return element_text(cast(Any, value.type).element_type)
