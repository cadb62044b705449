"""Modules of tt-mlir's dialect `ttir` as StableHLO: each op is replaced by what it computes (`ttir_meanings.py`).

The ops keep their places in the source. A splat stays one element. An op that changes an operand in place makes a new
value, which what follows reads; one of the function's own arguments that is changed so becomes a result, unless the
function returns it anyway. Destination operands, which tt-mlir wrote until 2025, are left out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from opscope.base import jax_plugins
from opscope.harness.prepare.mlir.traversal import ops_in
from opscope.harness.record.element_types import numpy_dtype

PREFIX = "ttir."
_EMPTY = re.compile(r"(?<![\"\w.])ttir\.empty\(\) : ")
_TO_LAYOUT = re.compile(
    r"(?<![\"\w.])ttir\.to_layout (%[\w#]+), (%[\w#]+) : (tensor<[^>]*>) into (tensor<[^>]*>) -> tensor<[^>]*>"
)
_SIGNED = re.compile(r"(?<=[x<])si(8|16|32|64)(?=>)")
_DEVICE_MODULE = re.compile(r"\bttcore\.(?:device|cpu)_module(?=\s*\{)")
_DEVICE = re.compile(r"(?m)^\s*ttcore\.device @.*$")
_INHERENT = re.compile(r"<(\{.*?\})>(?= :| \{)", re.DOTALL)
_SILENT = frozenset({"channel_last", "conservative_folding", "operandSegmentSizes", "dtype"})
"""Attributes that change nothing: the form that the dialect has anyway, what a folder may do, how operands are counted,
and the element type of the result."""
_CONSTANTS = {"zeros": 0, "ones": 1, "full": None, "constant": None}


class NoMeaningError(ValueError):
    """An op that has no meaning in StableHLO; the message says why, `place` is where it stands."""

    def __init__(self, got: str, place: str) -> None:
        super().__init__(got)
        self.place = place


def readable(text: str) -> str:
    """A text with the forms that only tt-mlir's parser knows as those that MLIR's own reads, line by line."""
    text = _EMPTY.sub('"ttir.empty"() : () -> ', text)
    text = _TO_LAYOUT.sub(r'"ttir.to_layout"(\1, \2) : (\3, \4) -> \4', text)
    return _SIGNED.sub(r"i\1", _DEVICE.sub("", _DEVICE_MODULE.sub("module", text)))


def read(text: str, path: str) -> ir.Module:
    """The module of such a text, whose ops come from the file that it was read from, if that has a name."""
    module = ir.Module.parse(text)
    if path:
        for op in ops_in(module):
            op.location = _from(path, op.location)
            for argument in (each for region in op.regions for block in region for each in block.arguments):
                argument.set_location(_from(path, argument.location))
    return module


def _from(path: str, location: Any) -> Any:
    """A place in a text as one in a file."""
    if not isinstance(location, ir.FileLineColLoc) or location.filename != "-":
        return location
    return ir.Location.file(path, location.start_line, location.start_col)


def inverted(module: ir.Module) -> ir.Module:
    """A module, read with unknown dialects allowed, as they are still, with each op of the dialect in StableHLO.

    Raises NoMeaningError for one that has no meaning there.
    """
    if not any(op.name.startswith(PREFIX) for op in ops_in(module)):
        return module
    with module.context, ir.Location.unknown():
        module = _unwrapped(module)
        inverse = _Inverse()
        for function in ops_in(module, "func.func"):
            if list(function.regions[0].blocks):
                inverse.function(function)
        for op in ops_in(module):
            if op.name.startswith(PREFIX):
                raise NoMeaningError(f"{op.name} within a region", _spot(op))
    return module


def _unwrapped(module: ir.Module) -> ir.Module:
    """A module that holds others, as tt-mlir wraps what a device runs, is the device's, whose functions nobody
    declares; functions of the host, before or behind it, stand where they are declared."""
    if not any(op.operation.name == "builtin.module" for op in module.body.operations):
        return module
    functions = [(_name_of(each), each, bool(list(each.regions[0].blocks))) for each in ops_in(module, "func.func")]
    declared = {name for name, _, has_body in functions if not has_body}
    own = next((each for name, each, has_body in functions if has_body and name not in declared), None)
    if own is None:
        return module
    text: Any = own.parent.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
    module = ir.Module.parse(text)
    for name, function, has_body in functions:
        if has_body and name in declared:
            for declaration in [each for each in ops_in(module, "func.func") if _name_of(each) == name]:
                declaration.erase()
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
            function.clone(ir.InsertionPoint(module.body))
    return module


class _Inverse:
    """What was lowered already, by op, attributes and types, since models repeat their layers."""

    def __init__(self) -> None:
        self.lowered: dict[tuple[Any, ...], ir.Module] = {}
        self.names: dict[tuple[Any, ...], int] = {}

    def function(self, function: Any) -> None:
        """Replaces the ops of a function; `now` holds what each changed value is by then."""
        [block] = function.regions[0].blocks
        now: list[tuple[Any, Any]] = []
        for view in list(block.operations):
            op: Any = view.operation
            for number, operand in enumerate(op.operands):
                for changed, value in now:
                    if operand == changed:
                        op.operands[number] = value
                        break
            if op.name == "func.return":
                self._returned(function, block, op, now)
            elif op.name.startswith(PREFIX):
                self._replace(op, now)
        for view in list(block.operations):
            op = view.operation
            if op.name == f"{PREFIX}empty" and not any(list(result.uses) for result in op.results):
                op.erase()

    def _returned(self, function: Any, block: Any, op: Any, now: list[tuple[Any, Any]]) -> None:
        """Changed arguments that are not among the results become results."""
        operands = list(op.operands)
        changed = [value for before, value in now if before in list(block.arguments) and value not in operands]
        if not changed:
            return
        operands += changed
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        results = [value.type for value in operands]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, results))
        if "res_attrs" in function.attributes:
            empty = [ir.DictAttr.get({})] * len(changed)
            function.attributes["res_attrs"] = ir.ArrayAttr.get([*function.attributes["res_attrs"], *empty])
        ir.Operation.create("func.return", operands=operands, loc=op.location, ip=ir.InsertionPoint(op))
        op.erase()

    def _replace(self, op: Any, now: list[tuple[Any, Any]]) -> None:
        from opscope.harness.prepare.mlir import ttir_meanings as table

        name = op.name.removeprefix(PREFIX)
        if name == "empty":
            return
        if name in table.AMONG_CHIPS or name in table.DRAWS:
            why = "among several chips" if name in table.AMONG_CHIPS else "draws its device's own random numbers"
            raise NoMeaningError(f"{op.name}, which {'works ' if 'chips' in why else ''}{why}", _spot(op))
        if name in _CONSTANTS:
            values = [_constant(op, name)]
        elif name in table.MEANINGS:
            values = self._spliced(op, name)
        else:
            raise NoMeaningError(f"{op.name}, whose meaning is not known", _spot(op))
        if name in table.INTO:
            cache = op.operands[0]
            original = next((before for before, value in now if value == cache), cache)
            now[:] = [pair for pair in now if pair[0] != original] + [(original, values[0])]
        for result, value in zip(op.results, values, strict=False):
            result.replace_all_uses_with(value)
        op.erase()

    def _spliced(self, op: Any, name: str) -> list[Any]:
        """The values that stand for an op's results, made by ops before it."""
        from opscope.harness.prepare.mlir import ttir_meanings as table

        operands = list(op.operands)
        kinds = [result.type for result in op.results] or [operands[0].type]
        while len(operands) > 1 and _is_destination(operands[-1], kinds) and name != "to_layout":
            operands.pop()
        if name == "max_pool2d_with_indices":
            operands = operands[:1]
        given = _attributes(op)
        places: list[Any] = operands
        if (count := table.SEGMENTS.get(name)) is not None:
            places = _in_places(op, operands, count)
        key = (name, *((str(each.type) if each is not None else "") for each in places), "->", *map(str, kinds))
        key = (*key, repr(sorted(given.items())))
        if key not in self.lowered:
            self.lowered[key] = _lowered(op, name, places, kinds, given)
            self.names[key] = len(self.names)
        there = [each for each in places if each is not None]
        return _Copy(self.lowered[key], op, f"{name}.{self.names[key]}").values(there)


def _spot(op: Any) -> str:
    at = op.location
    return f":{at.start_line}:{at.start_col}" if isinstance(at, ir.FileLineColLoc) else ""


def _is_destination(value: Any, kinds: Sequence[Any]) -> bool:
    owner: Any = value.owner
    return not isinstance(owner, ir.Block) and owner.name == f"{PREFIX}empty" and value.type in kinds


def _in_places(op: Any, operands: Sequence[Any], count: int) -> list[Any]:
    """Operands in their places, None where an optional one is left out."""
    if "operandSegmentSizes" not in op.attributes:
        return [*operands, *([None] * (count - len(operands)))]
    left, places = list(operands), []
    for size in list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))[:count]:
        places += [left.pop(0) if left else None] if size else [None]
    return [*places, *([None] * (count - len(places)))]


def _attributes(op: Any) -> dict[str, Any]:
    """An op's attributes as Python values. The bindings list no inherent ones of an op that MLIR does not know."""
    text = op.get_asm(enable_debug_info=False)
    found = _INHERENT.search(text)
    names = [named.name for named in ir.DictAttr(ir.Attribute.parse(found[1]))] if found else []
    every = {*names, *op.attributes}
    return {name: _value(op.attributes[name], op) for name in sorted(every) if name not in _SILENT and "." not in name}


def _value(attribute: Any, op: Any) -> Any:
    if isinstance(attribute, ir.OpaqueAttr):
        return str(attribute).rpartition(".")[2].rpartition("<")[2].rstrip(">").strip()
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(_value(each, op) for each in attribute)
    for kind in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr):
        if isinstance(attribute, kind):
            return tuple(attribute)
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr | ir.StringAttr):
        return attribute.value
    raise NoMeaningError(f"an attribute of {op.name} that is no number: {attribute}", _spot(op))


def _constant(op: Any, name: str) -> Any:
    """A constant's attribute is the file's own."""
    [result] = op.results
    kind = ir.RankedTensorType(result.type)
    value = op.attributes["value"] if name == "constant" else None
    if value is None:
        number = op.attributes["fill_value"].value if name == "full" else _CONSTANTS[name]
        whole = isinstance(kind.element_type, ir.IntegerType)
        element = (
            ir.IntegerAttr.get(kind.element_type, int(number)) if whole else ir.FloatAttr.get(kind.element_type, number)
        )
        value = ir.DenseElementsAttr.get_splat(kind, element)
    made = ir.Operation.create(
        "stablehlo.constant", [kind], attributes={"value": value}, loc=op.location, ip=ir.InsertionPoint(op)
    )
    return made.result


def _lowered(op: Any, name: str, places: Sequence[Any], kinds: Sequence[Any], given: dict[str, Any]) -> ir.Module:
    """A module whose `@main` takes the operands that there are, and returns what the op computes."""
    jax_plugins.keep_out()
    import jax

    from opscope.harness.prepare.mlir import ttir_meanings as table

    meaning = table.MEANINGS[name]
    try:
        out = tuple(_shaped(kind) for kind in kinds)
        shaped = [_shaped(each.type) for each in places if each is not None]
    except ValueError as error:
        raise NoMeaningError(f"{op.name} with {error}", _spot(op)) from None
    if "out" in inspect.signature(meaning).parameters:
        given = {**given, "out": out}

    # JAX keeps the function for a while, which therefore holds no object of MLIR.
    there = [each is not None for each in places]

    def main(*operands: Any) -> Any:
        rest = iter(operands)
        made = meaning(*(next(rest) if each else None for each in there), **given)
        several = made if isinstance(made, tuple | list) else (made,)
        if [each.shape for each in several] != [each.shape for each in out]:
            raise ValueError(f"results of {' and '.join(str(list(each.shape)) for each in several)}")
        return tuple(value.astype(kind.dtype) for value, kind in zip(several, out, strict=True))

    wide = any(each.dtype.itemsize == 8 for each in (*shaped, *out))  # else numbers of formulas are of 32 bits
    with jax.enable_x64(wide):
        try:
            text = jax.jit(main, keep_unused=True).trace(*shaped).lower(lowering_platforms=("cpu",)).as_text()
        except (TypeError, ValueError, KeyError, IndexError) as error:
            line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise NoMeaningError(f"{op.name} with {line[:160]}", _spot(op)) from None
    return ir.Module.parse(text)


def _shaped(kind: Any) -> Any:
    import jax

    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        raise ValueError(f"an operand of type {kind}")
    return jax.ShapeDtypeStruct(tuple(kind.shape), numpy_dtype(str(kind.element_type)))


class _Copy:
    """Copies a lowered `@main` to where an op stands, calls inlined; what composites name comes along."""

    def __init__(self, lowered: ir.Module, op: Any, name: str) -> None:
        self.op, self.name = op, name
        self.functions = {_name_of(each.operation): each.operation for each in lowered.body.operations}
        top = op
        while top.parent is not None:
            top = top.parent
        self.target = top.regions[0].blocks[0]

    def values(self, operands: Sequence[Any], function: str = "main") -> list[Any]:
        """What a function returns for these operands."""
        [body] = self.functions[function].regions[0].blocks
        value_of = dict(zip(body.arguments, operands, strict=True))
        for view in body.operations:
            source: Any = view.operation
            taken = [value_of[value] for value in source.operands]
            if source.name == "func.return":
                return taken
            if source.name == "func.call":
                made = self.values(taken, ir.FlatSymbolRefAttr(source.attributes["callee"]).value)
            else:
                made = self._copied(source, value_of)
            value_of.update(zip(source.results, made, strict=True))
        raise AssertionError("a function without a return")

    def _copied(self, source: Any, value_of: dict[Any, Any]) -> list[Any]:
        copy: Any = source.clone(ir.InsertionPoint(self.op)).operation
        for inner, own in zip(ops_in(source), ops_in(copy), strict=True):
            own.location = self.op.location
            for number, operand in enumerate(inner.operands):  # a body may read what stands around it
                if operand in value_of:
                    own.operands[number] = value_of[operand]
        self._named(copy)
        return list(copy.results)

    def _named(self, root: Any) -> None:
        """Gives the functions that ops within `root` name their names in the module, and brings them."""
        for op in ops_in(root):
            for attribute in ("callee", "decomposition"):
                if attribute not in op.attributes:
                    continue
                called = ir.FlatSymbolRefAttr(op.attributes[attribute]).value
                own = f"{PREFIX}{self.name}.{called}"
                op.attributes[attribute] = ir.FlatSymbolRefAttr.get(own)
                if own not in {_name_of(each.operation) for each in self.target.operations}:
                    function: Any = self.functions[called].clone(ir.InsertionPoint(self.target)).operation
                    function.attributes["sym_name"] = ir.StringAttr.get(own)
                    self._named(function)


def _name_of(op: Any) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""
