"""Variants of a single-op module: its op with other shapes, element types, attributes or regions.

MLIR decides the types of a variant's results: a type that StableHLO's verifier refuses is replaced by the one in its
error. A module that then still does not verify is no variant.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from opscope.harness.prepare.identity import attribute_items
from opscope.harness.prepare.mlir.door import Module, load, to_bytecode
from opscope.harness.prepare.mlir.drawn import expand
from opscope.harness.prepare.mlir.single_op import inner_ops
from opscope.harness.prepare.mlir.values import tensor_desc

Shape = tuple[int, ...]

_INFERRED = re.compile(r"inferred shape '\[([\d, ]*)\]'")
_INFERRED_TYPES = re.compile(r"inferred type\(s\) '([^']*)' are incompatible")
_PLACE = 3
"""Largest number of inferences of a result before the variant is given up."""


class InvalidVariantError(Exception):
    """StableHLO has no such op; the text is the verifier's first line."""


@dataclass(frozen=True)
class Form:
    """What may be varied of an op: shapes and element types of operands and results, and attributes as MLIR text."""

    name: str
    operands: tuple[Shape, ...]
    types: tuple[str, ...]
    results: tuple[Shape, ...]
    result_types: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    arguments: tuple[int, ...]
    """Per operand: its argument of `@main`, or -1 for a constant inside the module."""
    region_ops: int = 0
    """Ops in its regions, without their ends."""

    @property
    def elements(self) -> int:
        """Elements of all operands and results."""
        total = 0
        for shape in (*self.operands, *self.results):
            count = 1
            for extent in shape:
                count *= extent
            total += count
        return total


def main_op(module: Module) -> ir.Operation:
    """The op that a single-op module is about. Raises InvalidVariantError if it holds several, or none."""
    block = _main(module).regions[0].blocks[0]
    ops = [view.operation for view in block.operations]
    candidates = [op for op in ops if op.name not in ("stablehlo.constant", "func.return", "stablehlo.create_token")]
    if len(candidates) != 1 or len(candidates) + 1 + sum(op.name == "stablehlo.constant" for op in ops) != len(ops):
        raise InvalidVariantError(f"expected one op in @main, got {len(candidates)}")
    return candidates[0]


def _main(module: Module) -> ir.Operation:
    for view in module.body.operations:
        name: ir.Attribute = view.operation.attributes["sym_name"]
        if str(name) == '"main"':
            return view.operation
    raise InvalidVariantError("no @main")


def read(module: bytes) -> Form:
    """The form of the op of a module. Raises InvalidVariantError unless it takes and gives static tensors."""
    source = load(module)  # held here: an op does not keep its module alive
    op = main_op(source)
    arguments = [_argument(value) for value in op.operands]
    operands = [tensor_desc(value.type) for value in op.operands]
    results = [tensor_desc(value.type) for value in op.results]
    for value in (*op.operands, *op.results):
        if not isinstance(value.type, ir.RankedTensorType) or not value.type.has_static_shape:
            raise InvalidVariantError(f"{value.type} is no static tensor")
    attributes = tuple((name, str(attr)) for name, attr in attribute_items(op) if attr is not None)
    return Form(
        op.name,
        tuple(d.shape for d in operands),
        tuple(d.data_type for d in operands),
        tuple(d.shape for d in results),
        tuple(d.data_type for d in results),
        attributes,
        tuple(arguments),
        len(list(_inner(op))),
    )


def _argument(value: ir.Value) -> int:
    return value.arg_number if isinstance(value, ir.BlockArgument) else -1


def build(module: bytes, form: Form) -> tuple[bytes, Form]:
    """The module whose op has this form, and the form with its results as they are. Raises InvalidVariantError."""
    for _ in range(_PLACE):
        try:
            return _built(module, form), form
        except ir.MLIRError as error:
            inferred = _inferred(str(error), form)
            if inferred is None or inferred == form:
                lines = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
                raise InvalidVariantError(lines[0].split("error:")[-1].strip()[:200]) from error
            form = inferred
    raise InvalidVariantError("its results cannot be inferred")


def _inferred(message: str, form: Form) -> Form | None:
    """The form with the results that the verifier's error expects, or None if it names none."""
    types = _INFERRED_TYPES.search(message)
    if types is not None:
        types_in_text = re.findall(r"tensor<((?:\d+x)*)([^<>]+(?:<[^<>]*>)?)>", types[1])
        if len(types_in_text) == len(form.results):
            shapes = tuple(tuple(int(n) for n in dims.split("x") if n) for dims, _ in types_in_text)
            return dataclasses.replace(form, results=shapes, result_types=tuple(kind for _, kind in types_in_text))
    shape = _INFERRED.search(message)
    if shape is not None and len(form.results) == 1:
        return dataclasses.replace(form, results=(tuple(int(n) for n in re.findall(r"\d+", shape[1])),))
    return None


def _built(module: bytes, form: Form) -> bytes:
    """Raises MLIRError with the verifier's words."""
    source = load(module)
    old, old_main = main_op(source), _main(source)
    with source.context, ir.Location.unknown():
        built = ir.Module.parse(to_bytecode(source))  # functions that the op refers to come along
        _main(built).erase()
        tensors = [_tensor(shape, kind) for shape, kind in zip(form.operands, form.types, strict=True)]
        results = [_tensor(shape, kind) for shape, kind in zip(form.results, form.result_types, strict=True)]
        inputs: dict[int, ir.Type] = {
            number: _type_of(argument) for number, argument in enumerate(old_main.regions[0].blocks[0].arguments)
        }
        inputs |= {number: tensor for number, tensor in zip(form.arguments, tensors, strict=True) if number >= 0}
        signature = ir.FunctionType.get([inputs[n] for n in sorted(inputs)], results)
        main = ir.Operation.create(
            "func.func",
            regions=1,
            ip=ir.InsertionPoint.at_block_begin(built.body),
            attributes={"sym_name": ir.StringAttr.get("main"), "function_type": ir.TypeAttr.get(signature)},
        )
        block = main.regions[0].blocks.append(*signature.inputs)
        point = ir.InsertionPoint(block)
        operands = [
            block.arguments[number] if number >= 0 else _constant(value, tensor, point)
            for number, tensor, value in zip(form.arguments, tensors, old.operands, strict=True)
        ]
        attributes = {name: ir.Attribute.parse(text) for name, text in form.attributes}
        op = ir.Operation.create(
            form.name, results=results, operands=operands, attributes=attributes, regions=len(old.regions), ip=point
        )
        _move_regions(old, op, form)
        _read_from(block, old_main.regions[0].blocks[0], op)
        ir.Operation.create("func.return", operands=list(op.results), ip=point)
        built.operation.verify()
        return to_bytecode(built)


def _tensor(shape: Sequence[int], kind: str) -> ir.Type:
    return ir.Type.parse(f"tensor<{''.join(f'{n}x' for n in shape)}{kind}>")


def _type_of(value: ir.Value) -> ir.Type:
    return value.type


def _constant(value: ir.Value, tensor: ir.Type, point: ir.InsertionPoint) -> ir.Value:
    """The constant behind `value` in another shape (a splat) or as it is."""
    owner: Any = value.owner  # an op, as it is no argument
    value_text = str(owner.attributes["value"])
    splat = re.match(r"dense<([^\[\]\"]+)> : ", value_text)
    text = f"dense<{splat[1]}> : {tensor}" if splat is not None else value_text
    operation = ir.Operation.create(
        "stablehlo.constant", results=[tensor], attributes={"value": ir.Attribute.parse(text)}, ip=point
    )
    return operation.results[0]


def _read_from(block: ir.Block, before: ir.Block, op: ir.Operation) -> None:
    """Has the regions of an op read the arguments and constants of its new block where they read those of the one
    before, as branches do: that one goes with its module."""
    outer: dict[Any, Any] = dict(zip(before.arguments, block.arguments, strict=True))
    constants: dict[Any, ir.Operation] = {
        result: each for each in map(_operation, before.operations) for result in each.results
    }
    for inner in inner_ops(op):
        for place, value in enumerate(inner.operands):
            if value in constants:
                outer[value] = constants.pop(value).clone(ir.InsertionPoint(op)).results[0]
            if value in outer:
                inner.operands[place] = outer[value]


def _move_regions(old: ir.Operation, new: ir.Operation, form: Form) -> None:
    """Gives `new` copies of the regions of `old`, their element type changed with the first operand's."""
    if not len(old.regions):
        return
    point = ir.InsertionPoint(new)
    copy = old.clone(point)
    for source, target in zip(copy.regions, new.regions, strict=True):
        for block in list(source.blocks):
            block.append_to(target)
    copy.erase()
    before = tensor_desc(old.operands[0].type).data_type if len(old.operands) else ""
    after = form.types[0] if form.types else ""
    if before == after:
        return
    for region in new.regions:
        for block in region.blocks:
            values = [*block.arguments, *(result for view in block.operations for result in view.operation.results)]
            for value in values:
                desc = tensor_desc(value.type)
                if desc.data_type == before:
                    value.set_type(_tensor(desc.shape, after))


def _inner(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for view in list(block.operations)[:-1]:
                yield view.operation
                yield from _inner(view.operation)


def region_kinds(module: bytes) -> tuple[str, ...]:
    """The names of the ops whose results the op's regions return, such as the `stablehlo.maximum` of a reduction.

    `argument` for what a region returns as it came in.
    """
    source = load(module)
    kinds = []
    for region in main_op(source).regions:
        for block in region.blocks:
            for value in list(block.operations)[-1].operation.operands:
                owner = value.owner
                kinds.append("argument" if isinstance(owner, ir.Block) else owner.name)
    return tuple(kinds)


def inlined(module: bytes) -> bytes | None:
    """The module with functions that its op's regions call in the places of the calls; None if they call none."""
    source = load(module)
    copy = ir.Module.parse(to_bytecode(source), source.context)
    functions = {_symbol(op, "sym_name"): op for op in map(_operation, copy.body.operations)}
    found = False
    while calls := [op for op in _inner(main_op(copy)) if op.name == "func.call"]:
        found = True
        for call in calls:
            expand(call, functions[_symbol(call, "callee")])
    if not found:
        return None
    with copy.context:
        PassManager.parse("builtin.module(symbol-dce)").run(copy.operation)
    return to_bytecode(copy)


def _operation(view: Any) -> ir.Operation:
    return view.operation


def _symbol(op: ir.Operation, name: str) -> str:
    attribute: Any = op.attributes[name]
    return str(attribute.value)


def without_inner_ops(module: bytes) -> Iterator[bytes]:
    """Modules with one op less in the regions: its result replaced by a value of its type that was there before it."""
    count = read(module).region_ops
    for index in reversed(range(count)):
        for choice in range(4):
            variant = _without(module, index, choice)
            if variant is not None:
                yield variant


def _without(module: bytes, index: int, choice: int) -> bytes | None:
    """`module` without inner op `index`, the `choice`-th candidate in its place, or nothing if nobody reads it; None if
    there is no such module."""
    source = load(module)
    copy = ir.Module.parse(to_bytecode(source), source.context)
    op = list(_inner(main_op(copy)))[index]
    if any(True for result in op.results for _ in result.uses):
        if len(op.results) != 1:
            return None
        arguments = list(op.block.arguments)
        candidates = [value for value in (*op.operands, *arguments) if value.type == op.results[0].type]
        if choice >= len(candidates):
            return None
        op.results[0].replace_all_uses_with(candidates[choice])
    elif choice:
        return None
    op.erase()
    try:
        copy.operation.verify()
    except ir.MLIRError:
        return None
    return to_bytecode(copy)
