"""Converts jaxlib's objects of a parsed StableHLO module to xDSL's, in one pass.

Tuples are taken apart, tokens are dropped, locations are kept, and floats are passed on as bit patterns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import jaxlib.mlir.ir as mlir
import numpy as np
from jaxlib.mlir.dialects import stablehlo
from xdsl.dialects import builtin as b
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from opscope.base.stablehlo import nesting
from opscope.base.stablehlo.attribute_fields import DIMENSIONS
from opscope.compiler.dialects.stablehlo import CLASSES, spec_attr
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ir import functions, on_mesh, text
from opscope.compiler.ir.functions import AXES, MESH
from opscope.compiler.ops.ccl import COLLECTIVES, IDS

STAGE = "stablehlo-to-ttir"
_ENUM = re.compile(r"#(?:stablehlo|chlo)<\w+ (\w+)>")
CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Ops that stand for a function's body -> the attribute that names the function."""
ACROSS_CHIPS = frozenset(f"stablehlo.{name}" for name in (*COLLECTIVES, *IDS))
LARGEST_CONSTANT = 2**29
"""Largest number of elements of a constant: 2 GiB of float32, for which text may write only one element."""
RESOURCE = "dense_resource<"
"""How a constant begins whose elements stand at the end of the file."""
TOKEN = None
"""Represents a token, a value that only orders side effects; programs here have none."""
_DIMENSIONS = {
    f"#stablehlo.{name.removesuffix('DimensionNumbers').lower()}<": (getattr(stablehlo, name), fields)
    for name, fields in DIMENSIONS.items()
}


class Conversion:
    """Converts one module in one pass over its objects. Types and attributes are converted once each, those of many
    elements for this module alone."""

    def __init__(self, module: Any) -> None:
        self.functions: dict[str, Any] = {}
        self.called: set[str] = set()
        self.wanted: list[str] = []
        """The names in `called`, in the order of their first calls."""
        self.large: dict[Any, Attribute] = {}
        self.depth = 0
        """How deep in regions of ops the walk is."""
        self.mesh = tuple(_count(module, f"mhlo.num_{count}") for count in ("replicas", "partitions"))
        self.axes = on_mesh.rows_and_columns(module)
        self.name = _text(module.attributes, "sym_name")
        (body,) = module.regions[0].blocks
        for wrapper in body.operations:
            op: Any = wrapper.operation
            if op.name == "func.func":
                self.functions[op.attributes["sym_name"].value] = op

    def module(self, every: bool) -> b.ModuleOp:
        """Converts the module: its entry function, or `every` public one, and the functions that these call."""
        public = {n: f for n, f in self.functions.items() if _text(f.attributes, "sym_visibility") != "private"}
        if every and public:
            self.called.update(public)
            made = [self.function(n, f, _text(f.attributes, "sym_visibility") or None) for n, f in public.items()]
        else:
            made = [self.function("main", self.entry(public))]
        # The list grows while its functions call others.
        for name in self.wanted:
            made.append(self.function(name, self.functions[name], "private"))
        return b.ModuleOp(made, sym_name=b.StringAttr(self.name) if every and self.name else None)

    def entry(self, public: dict[str, Any]) -> Any:
        """Returns the function `main`, or the only public one."""
        if (main := self.functions.get("main")) is not None:
            return main
        if len(public) != 1:
            raise CompilerInputError(
                f"module: expected a function @main, got {sorted(self.functions) or 'no function'}"
            )
        return next(iter(public.values()))

    def function(self, name: str, entry: Any, visibility: str | None = None) -> FuncOp:
        """Converts one function and gives it a name."""
        old = _only_block(name, entry)
        block, values = self.block(old)
        return functions.function(name, _without_tokens(self.body(old, block, values)), block, visibility)

    def block(self, old: Any) -> tuple[Block, dict[Any, Any]]:
        """An empty block for the ops of `old`, and its arguments by those of `old`."""
        block = Block(arg_types=[self.type(a.type) for a in old.arguments if not _is_token(a)])
        return block, dict(zip(old.arguments, _with_tokens(old.arguments, block.args), strict=True))

    def body(self, old: Any, block: Block, values: dict[Any, Any]) -> list[Any]:
        """Appends the ops of `old` to `block`; returns the operands of its terminator, tokens among them."""
        for wrapper in old.operations:
            op = wrapper.operation
            operands = [values[v] for v in op.operands]
            if op.name in ("func.return", "stablehlo.return"):
                return operands
            if op.name in CALLS:
                results: Any = self.call(op, operands, block)
            elif op.name == "stablehlo.async_start":
                (inner,) = op.regions[0].blocks
                results = [tuple(self.body(inner, block, values | dict(zip(inner.arguments, operands, strict=True))))]
            elif op.name == "stablehlo.tuple":
                results = [tuple(operands)]
            elif op.name in ("stablehlo.after_all", "stablehlo.create_token"):
                results = [TOKEN]
            elif op.name == "stablehlo.get_tuple_element":
                results = [operands[0][op.attributes["index"].value]]
            elif op.name == "stablehlo.async_done":
                results = operands[0]
            else:
                new_op = self.op(op, _without_tokens(operands), values)
                block.add_op(new_op)
                results = _with_tokens(op.results, new_op.results)
            values.update(zip(op.results, results, strict=True))
        raise CompilerInputError("module: expected a return at the end of a block, got none")

    def call(self, op: Any, operands: list[Any], block: Block) -> list[Any]:
        """Converts a call or composite; if tuples or tokens go in or out, the callee's body takes its place."""
        callee = op.attributes[CALLS[op.name]].value
        old = _only_block(callee, self.functions[callee])
        (*_, end) = old.operations
        if not all(isinstance(v.type, mlir.RankedTensorType) for v in (*old.arguments, *end.operation.operands)):
            return self.body(old, block, dict(zip(old.arguments, operands, strict=True)))
        if callee not in self.called:
            self.called.add(callee)
            self.wanted.append(callee)
        name, types = b.SymbolRefAttr(callee), [self.type(r.type) for r in op.results]
        new_op: Operation
        if op.name == "func.call":
            new_op = CallOp(name, operands, types)
            new_op.location = _location(op.location)
        else:
            new_op = self.op(op, operands, {})
            new_op.attributes[CALLS[op.name]] = name
            if (composite := op.attributes.get("composite_attributes")) is not None:
                new_op.attributes["composite_attributes"] = b.DictionaryAttr(
                    {attribute.name: self.attribute(attribute.attr) for attribute in composite}
                )
        block.add_op(new_op)
        return list(new_op.results)

    def op(self, op: Any, operands: list[SSAValue], outer: dict[Any, SSAValue]) -> Operation:
        """Converts one op with its regions, attributes and location."""
        cls = CLASSES.get(op.name)
        if cls is None:
            raise StageFailure(
                STAGE, op.name, f"{op.name}: expected an op of stablehlo or chlo, got another dialect's", kind="notimpl"
            )
        if not self.depth and len(op.regions) and (reason := nesting.too_deep(_nested(op))):
            raise StageFailure(STAGE, op.name, reason, kind="notimpl")
        regions = []
        self.depth += 1
        for old_region in op.regions:
            region = Region()
            for old in old_region.blocks:
                block, inner = self.block(old)
                results = _without_tokens(self.body(old, block, outer | inner))
                block.add_op(CLASSES["stablehlo.return"].create(operands=results))
                region.add_block(block)
            regions.append(region)
        self.depth -= 1
        attributes = {name: self.attribute_of(op, name) for name in op.attributes}
        if op.name in ACROSS_CHIPS:
            attributes[MESH] = b.DenseArrayBase.from_list(b.i64, list(self.mesh))
            if self.axes:
                attributes[AXES] = b.DenseArrayBase.from_list(b.i64, list(self.axes))
        return cls.create(
            operands=operands,
            result_types=[self.type(r.type) for r in op.results if not _is_token(r)],
            attributes=attributes,
            regions=regions,
            location=_location(op.location),
        )

    def type(self, old: Any) -> Attribute:
        """Converts a type; ranked tensors are built, all others are parsed from their text."""
        new = _TYPES.get(old)
        if new is None:
            if isinstance(old, mlir.RankedTensorType):
                shape = [b.DYNAMIC_INDEX if old.is_dynamic_dim(i) else n for i, n in enumerate(old.shape)]
                new = b.TensorType(self.type(old.element_type), shape)
            else:
                new = _element(str(old))
            _keep(_TYPES, old, new)
        return new

    def attribute_of(self, op: Any, name: str) -> Attribute:
        """Converts an attribute of `op`; jaxlib cannot return dense complex ones, which are kept as text."""
        try:
            old = op.attributes[name]
        except TypeError as error:
            match = re.search(r"\(Attribute\((.*)\)\)$", str(error), re.DOTALL)
            return spec_attr(match.group(1) if match else "unit", {})
        new = _ATTRIBUTES.get(old)
        of_file = op.name == "stablehlo.constant" and not isinstance(old, mlir.DenseElementsAttr)
        if new is None and of_file and str(old).startswith(RESOURCE):
            return self.resource(op)
        if new is None:
            new = self.large.get(old)
        if new is None:
            new = self.attribute(old)
            if isinstance(old, mlir.DenseElementsAttr) and len(old) > FEW:
                self.large[old] = new
            else:
                _keep(_ATTRIBUTES, old, new)
        return new

    def attribute(self, old: Any) -> Attribute:
        """Converts an attribute by its kind; dense elements by their bytes."""
        if isinstance(old, mlir.DenseI64ArrayAttr):
            return b.DenseArrayBase.from_list(b.i64, list(old))
        if isinstance(old, mlir.DenseBoolArrayAttr):
            return b.DenseArrayBase.from_list(b.i1, [int(v) for v in old])
        if isinstance(old, (mlir.DenseFPElementsAttr, mlir.DenseIntElementsAttr)):
            return self.dense(old)
        if isinstance(old, mlir.ArrayAttr):
            return b.ArrayAttr([self.attribute(a) for a in old])
        if isinstance(old, mlir.StringAttr):
            return b.StringAttr(old.value)
        words = str(old)
        if match := _ENUM.fullmatch(words):
            return spec_attr(words, {"value": match.group(1)})
        for start, (cls, fields) in _DIMENSIONS.items():
            if words.startswith(start):
                numbers = cls(old)
                return spec_attr(words, {field: getattr(numbers, field) for field in fields})
        if words.startswith(("#", "@", "!", "{")):
            return spec_attr(words, {})
        return text.parse_attribute(words)

    def resource(self, op: Any) -> Attribute:
        """The elements of a constant that its file keeps as a resource. The bindings give no bytes, only the printed
        module does: after four of alignment, in hex. Raises StageFailure where they are missing or of another size."""
        kind: Any = self.type(op.results[0].type)
        alone = mlir.Module.create(mlir.Location.unknown(op.context))
        op.clone(mlir.InsertionPoint(alone.body))
        match = re.search(r':\s*"0x([0-9A-Fa-f]*)"', str(alone.operation.get_asm(print_generic_op_form=True)))
        data = b"" if match is None else bytes.fromhex(match[1])[4:]
        width = max(8, getattr(kind.element_type, "bitwidth", 0))
        if len(data) * 8 != math.prod(kind.get_shape()) * width or width % 8:
            got = "none" if match is None else f"{len(data):,} bytes"
            message = f"expected the values of {op.results[0].type} in the module's resources, got {got}"
            raise StageFailure(STAGE, "stablehlo.constant", f"{message}; try exporting with all weights")
        return b.DenseIntOrFPElementsAttr(kind, b.BytesAttr(data))

    def dense(self, old: Any) -> Attribute:
        """Converts dense elements: through NumPy if it has the type, else from the text, where floats are exact.

        Raises StageFailure for a constant that no board could hold: text may write one element for any number of them.
        """
        kind: Any = self.type(old.type)
        if math.prod(kind.get_shape()) > LARGEST_CONSTANT:
            message = f"expected a constant of at most {LARGEST_CONSTANT:,} elements, got {old.type}"
            raise StageFailure(STAGE, "stablehlo.constant", message, kind="never")
        try:
            return b.DenseIntOrFPElementsAttr(kind, b.BytesAttr(np.ascontiguousarray(np.array(old)).tobytes()))
        except TypeError:
            if not old.is_splat:
                return text.parse_attribute(str(old))
        # One element is read as text and repeated: xDSL would unpack and pack every one of them.
        shape = tuple(old.type.shape)
        element: Any = text.parse_attribute(f"{str(old).rpartition(' : ')[0]} : tensor<{old.type.element_type}>")
        return b.DenseIntOrFPElementsAttr(kind, b.BytesAttr(element.data.data * math.prod(shape)))


@cache
def _element(words: str) -> Attribute:
    """Parses a scalar type from its text. Raises StageFailure for a type that xDSL cannot hold."""
    try:
        return text.BitParser(text.context(), words).parse_type()
    except Exception as error:
        raise StageFailure(STAGE, words, f"type {words}: expected a type xDSL can hold", kind="notimpl") from error


FEW, MOST_KEPT = 64, 4096
"""Elements of an attribute, and number of objects, that are kept from module to module."""
_TYPES: dict[Any, Attribute] = {}
_ATTRIBUTES: dict[Any, Attribute] = {}
"""What MLIR's objects, of which the context has one for all that are equal, have been converted to. Modules of single
ops have the same few, and what is made once is also verified and described once."""


def _keep(kept: dict[Any, Attribute], old: Any, new: Attribute) -> None:
    if len(kept) >= MOST_KEPT:
        kept.clear()
    kept[old] = new


def _nested(op: Any) -> int:
    """How deep the regions of an op lie in one another."""
    deepest, inside = 0, [(op, 0)]
    while inside:
        each, depth = inside.pop()
        deepest = max(deepest, depth)
        inside += [(v.operation, depth + 1) for region in each.regions for block in region for v in block.operations]
    return deepest


def _is_token(value: Any) -> bool:
    """Whether a value of MLIR only orders side effects."""
    return str(value.type) == "!stablehlo.token"


def _without_tokens(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not TOKEN]


def _with_tokens(old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """Values in the place of `old` ones: of `new` ones, which have no tokens, the next."""
    rest = iter(new)
    return [TOKEN if _is_token(value) else next(rest) for value in old]


def _only_block(name: str, function: Any) -> Any:
    blocks = list(function.regions[0].blocks)
    if len(blocks) != 1:
        raise CompilerInputError(f"module: expected a function @{name} of one block, got {len(blocks) or 'none'}")
    return blocks[0]


def _count(module: Any, name: str) -> int:
    attributes = module.attributes
    return int(mlir.IntegerAttr(attributes[name]).value) if name in attributes else 1


def _text(attributes: Any, name: str) -> str:
    return attributes[name].value if name in attributes else ""


def _location(loc: Any) -> Any:
    """Returns a location's name and its innermost file position."""
    name, place = "", None
    while loc is not None:
        if isinstance(loc, mlir.NameLoc):
            name = name or loc.name_str
            loc = loc.child_loc if hasattr(loc, "child_loc") else None
        elif isinstance(loc, mlir.CallSiteLoc):
            loc = loc.callee
        elif isinstance(loc, mlir.FusedLoc):
            loc = loc.locations[0] if loc.locations else None
        elif isinstance(loc, mlir.FileLineColLoc):
            place = b.FileLineColLoc(
                b.StringAttr(str(loc.filename).strip('"')), b.IntAttr(loc.start_line), b.IntAttr(loc.start_col)
            )
            break
        else:
            break
    if name:
        return b.NameLoc(b.StringAttr(name), place or b.UnknownLoc())
    return place or b.UnknownLoc()
