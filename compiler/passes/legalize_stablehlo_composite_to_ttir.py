"""Pass `legalize-stablehlo-composite-to-ttir`: replaces a composite by the op that it names, or its decomposition.

The PyTorch and JAX front ends of tt-mlir emit `tenstorrent.*`, which become ttir ops here as there. StableHLO writes
`chlo.*` to files for readers without chlo; they become the op of that name again, if the table has a row for it. In
tt-mlir's own forms (`named`) they are decomposed, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import CallOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from opscope.compiler.dialects import ttir
from opscope.compiler.dialects.from_row import element_of, write_attrs
from opscope.compiler.dialects.stablehlo import CLASSES
from opscope.compiler.ir.functions import functions
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.inline import DECOMPOSITION, drop, inline_calls
from opscope.compiler.passes.stablehlo_to_ttir.named.composites import written

COMPOSITE = "stablehlo.composite"
FLOATS = ("f32", "bf16", "f16")
"""Element types for which the device has fused kernels; composites of other types are decomposed."""
Attrs = dict[str, Attribute]
Read = Callable[[Operation, Attrs], "dict[str, Any] | None"]
"""(composite, its attributes) -> the ttir op's attributes; None if the op cannot do what they ask for."""


@dataclass(frozen=True)
class LegalizeStablehloCompositeToTtir(ModulePass):
    """Replaces every [composite](#composites) by the op of its name, or by its decomposition."""

    name = "legalize-stablehlo-composite-to-ttir"
    named: bool = False
    """Whether composites become all ops of tt-mlir, also those without a kernel here, and no others."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place and drops functions that only composites used. Raises CompilerInputError."""
        composites = [composite for func in functions(op) for composite in func.walk() if composite.name == COMPOSITE]
        decomposed: set[str] = set()
        meanings: set[str] = set()
        for composite in composites:
            meaning = composite.attributes[DECOMPOSITION]
            assert isinstance(meaning, SymbolRefAttr)
            meanings.add(meaning.root_reference.data)
            block = composite.parent
            assert block is not None
            results = written(composite) if self.named else None
            if results is None:
                new_op = _as_op(composite, chlo=not self.named)
                if new_op is None:
                    decomposed.add(meaning.root_reference.data)
                    new_op = CallOp(meaning, list(composite.operands), [r.type for r in composite.results])
                    new_op.location = composite.location
                block.insert_op_before(new_op, composite)
                results = list(new_op.results)
            for old, new in zip(composite.results, results, strict=True):
                old.replace_all_uses_with(new)
            composite.detach()
            composite.erase()
        inline_calls(op, decomposed.__contains__)
        drop(op, meanings)


def _as_op(composite: Operation, chlo: bool) -> Operation | None:
    """Returns the op that the composite's name stands for; None if only its decomposition is known."""
    called = composite.attributes["name"]
    name = called.data if isinstance(called, StringAttr) else ""
    attributes = composite.attributes.get("composite_attributes")
    attrs: Attrs = dict(attributes.data) if isinstance(attributes, DictionaryAttr) else {}
    types = [result.type for result in composite.results]
    if chlo and name.startswith("chlo.") and name in CLASSES:
        return CLASSES[name].create(
            operands=composite.operands, result_types=types, attributes=attrs, location=composite.location
        )
    if name not in TTIR or not composite.operands or types != [composite.operands[0].type]:
        return None
    if any(element_of(value) != element_of(composite.operands[0]) for value in composite.operands):
        return None
    op, read = TTIR[name]
    values = read(composite, attrs) if element_of(composite.operands[0]) in FLOATS else None
    if values is None:
        return None
    cls = ttir.CLASSES[op]
    return cls.create(
        operands=composite.operands,
        result_types=types,
        properties=write_attrs(cls.ROW, values),
        location=composite.location,
    )


def _gelu(form: str) -> Read:
    def read(composite: Operation, attrs: Attrs) -> dict[str, Any] | None:
        """Reads `approximate` from the composite; without it, the composite's name decides."""
        if len(composite.operands) != 1 or attrs.keys() - {"approximate"}:
            return None
        word = attrs.get("approximate")
        approximate = word.data if isinstance(word, StringAttr) else form
        return {"approximate": "tanh" if approximate == "tanh" else None} if approximate in ("none", "tanh") else None

    return read


def _norm(composite: Operation, attrs: Attrs) -> dict[str, Any] | None:
    """Reads a norm along the last dim, with a weight and a bias of its size; None if epsilon is not an attribute."""
    size = shape_of(composite.operands[0])[-1:]
    unknown = {
        key for key, value in attrs.items() if key not in ("epsilon", "normalized_shape") and not _is_false(value)
    }
    if unknown or not size or len(composite.operands) > 3:
        return None
    if any(shape_of(vector) != size for vector in composite.operands[1:]):
        return None
    shape, epsilon = attrs.get("normalized_shape"), attrs.get("epsilon")
    if shape is None or epsilon is None or tuple(_values(shape)) != size:
        return None
    return {"normalized_shape": size, "epsilon": _value(epsilon)}


def _values(attr: Any) -> list[int]:
    return [int(v) for v in attr.get_values()] if hasattr(attr, "get_values") else [_value(v) for v in attr.data]


def _value(attr: Any) -> Any:
    return attr.value.data


def _is_false(attr: Attribute) -> bool:
    return isinstance(attr, IntegerAttr) and not attr.value.data


TTIR: dict[str, tuple[str, Read]] = {
    "tenstorrent.gelu": ("gelu", _gelu("none")),
    "tenstorrent.gelu_tanh": ("gelu", _gelu("tanh")),
    "tenstorrent.layer_norm": ("layer_norm", _norm),
    "tenstorrent.rms_norm": ("rms_norm", _norm),
}
"""Name of a composite -> the ttir op, and how its attributes are read."""
