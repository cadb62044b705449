"""Builds the module that holds one op: its outer values become arguments of `@main`, its symbols come along."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import Module
from opscope.harness.prepare.mlir.locations import located
from opscope.harness.prepare.mlir.values import not_a_static_tensor

TOKEN = "!stablehlo.token"
HAS_BYTES = frozenset(["f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"])
"""Element types whose bytes are a literal's."""


class CannotBuildError(Exception):
    """Why no module can be made of an op, in one clause."""


def literal(array: np.ndarray) -> str:
    """What stands between `dense<` and `>` for `array`: one element of a splat (floats as bits), else all bytes, or a
    list where elements are smaller than a byte."""
    if array.size > 1 and any(array.strides):
        if array.dtype == np.bool_ or array.dtype.name in ("int2", "uint2", "int4", "uint4"):
            return str(array.astype(np.int8 if array.dtype != np.bool_ else np.bool_).tolist()).lower()
        return f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'
    element = array.reshape(-1)[:1]
    if element.dtype.kind == "c":
        return f"({', '.join(_bits(part) for part in (np.real(element), np.imag(element)))})"
    if element.dtype == np.bool_:
        return str(bool(element[0])).lower()
    return str(int(element[0])) if element.dtype.kind in "iu" or "int" in element.dtype.name else _bits(element)


def _bits(element: np.ndarray) -> str:
    """The bits of the one float in `element` as a hex literal of its full width."""
    width = element.dtype.itemsize
    return f"0x{int(np.ascontiguousarray(element).view(f'u{width}')[0]):0{2 * width}X}"


def constant(array: np.ndarray, type_: ir.Type) -> ir.Operation:
    """A detached `stablehlo.constant` of `type_`. Made from text: the bindings have no complex, bf16 or i4."""
    with type_.context:
        return ir.Operation.parse(f"%0 = stablehlo.constant dense<{literal(array)}> : {type_}").operation


def spelled_out(op: ir.Operation, array: np.ndarray | None) -> ir.Operation:
    """A constant whose value `array` lies apart (`dense_resource`), with the value in it; any other as it is."""
    try:
        attr = op.attributes["value"]
    except TypeError:  # a complex constant
        return op
    if array is None or isinstance(attr, ir.DenseElementsAttr) or not str(attr).startswith("dense_resource<"):
        return op
    type_ = op.results[0].type
    if str(type_.element_type) not in HAS_BYTES:
        return op
    fresh = constant(array, type_)
    fresh.location = op.location
    return fresh


def inner_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops in the regions of `op`, at any depth, in program order."""
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                yield inner
                if len(inner.regions):
                    yield from inner_ops(inner)


def symbols_in(op: ir.Operation) -> list[str]:
    """Names of the symbols that `op` and the ops in its regions refer to, each once, in order."""
    symbols: dict[str, None] = {}
    for each in (op, *inner_ops(op)):
        for name in each.attributes:
            if name == "sym_name":
                continue
            try:
                attr = each.attributes[name]
            except TypeError:  # a complex constant: no symbol in there
                continue
            if isinstance(attr, (ir.FlatSymbolRefAttr, ir.SymbolRefAttr)):
                symbols.update(dict.fromkeys([attr.value] if isinstance(attr.value, str) else attr.value[:1]))
            elif isinstance(attr, (ir.ArrayAttr, ir.DictAttr)) or type(attr) is ir.Attribute:
                symbols.update(dict.fromkeys(re.findall(r"@([\w.$-]+)", str(attr))))
    return list(symbols)


def build_module(
    op: ir.Operation,
    number_of: Callable[[ir.Value], int | None],
    arguments: Sequence[tuple[int, ir.Type]],
    embedded: Mapping[int, tuple[np.ndarray, ir.Type]],
    tokens: Sequence[int],
    symbol: Callable[[str], ir.Operation | None],
) -> Module:
    """The module whose `@main` computes `op` from `arguments`.

    `number_of` gives the number of a value from outside the op (None for those inside its regions); `arguments`,
    `embedded` constants and `tokens` (made inside the module) tell what becomes of each number. All results but
    tokens are returned. Raises CannotBuildError.
    """
    results = [(i, r.type) for i, r in enumerate(op.results) if str(r.type) != TOKEN]
    for verb, type_ in [*(("takes", t) for _, t in arguments), *(("gives", t) for _, t in results)]:
        if reason := not_a_static_tensor(type_):
            raise CannotBuildError(f"{verb} a value that no array can hold: {reason}")
    if not results:
        raise CannotBuildError("it computes no tensor")
    place = located(op.location)
    with op.context, place:
        module, block = with_main([t for _, t in arguments], [t for _, t in results], place)
        point = ir.InsertionPoint(block)
        new: dict[int, ir.Value] = {number: block.arguments[i] for i, (number, _) in enumerate(arguments)}
        for number, (array, type_) in embedded.items():
            constant_op = constant(array, type_)
            point.insert(constant_op)
            new[number] = constant_op.results[0]
        for number in tokens:
            token = ir.Type.parse(TOKEN)
            new[number] = ir.Operation.create("stablehlo.create_token", results=[token], ip=point).results[0]
        clone = op.clone(point)
        clone.location = place
        _reconnect(op, clone, number_of, new)
        for old, fresh in zip(inner_ops(op), inner_ops(clone), strict=True):
            _reconnect(old, fresh, number_of, new)
        ir.Operation.create("func.return", operands=[clone.results[i] for i, _ in results], ip=point)
        _bring_symbols(module, op, symbol)
        return verified(module)


def with_main(takes: Sequence[ir.Type], gives: Sequence[ir.Type], place: ir.Location) -> tuple[Module, ir.Block]:
    """A module with an empty `@main` of these types, at `place`, and the block of that."""
    with place.context, place:
        module = Module.create()
        signature = ir.FunctionType.get(list(takes), list(gives))
        main = ir.Operation.create(
            "func.func",
            attributes={"sym_name": ir.StringAttr.get("main"), "function_type": ir.TypeAttr.get(signature)},
            regions=1,
            ip=ir.InsertionPoint(module.body),
        )
        return module, main.regions[0].blocks.append(*takes, arg_locs=[place] * len(takes))


def verified(module: Module) -> Module:
    """The module, if it is valid. Raises CannotBuildError."""
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        lines = [line for line in str(error).splitlines() if "error:" in line] or str(error).splitlines()
        raise CannotBuildError(f"its module does not verify: {lines[0].split('error:')[-1].strip()}") from error
    return module


def _reconnect(
    old: ir.Operation, fresh: ir.Operation, number_of: Callable[[ir.Value], int | None], new: Mapping[int, ir.Value]
) -> None:
    """Gives `fresh`, the clone of `old`, the new values for those from outside."""
    for i, value in enumerate(old.operands):
        number = number_of(value)
        if number is not None:
            fresh.operands[i] = new[number]


def _bring_symbols(module: Module, op: ir.Operation, symbol: Callable[[str], ir.Operation | None]) -> None:
    """Copies the functions (and meshes) that `op` refers to, and those that they refer to, into `module`."""
    todo, done = symbols_in(op), set[str]()
    if not todo:
        return
    point = ir.InsertionPoint(module.body)
    clones: dict[str, ir.Operation] = {}
    while todo:
        name = todo.pop(0)
        if name in done:
            continue
        done.add(name)
        source = symbol(name)
        if source is None:
            raise CannotBuildError(f"it refers to @{name}, which the module does not have")
        clones[name] = source.clone(point)
        if source.name == "func.func":
            clones[name].attributes["sym_visibility"] = ir.StringAttr.get("private")
        todo += symbols_in(source)
    if "main" in clones:  # a callee of that name would clash with the module's own entry
        fresh = next(f"main_{i}" for i in range(len(done) + 1) if f"main_{i}" not in done)
        clones["main"].attributes["sym_name"] = ir.StringAttr.get(fresh)
        ir.SymbolTable.replace_all_symbol_uses("main", fresh, module.operation)
