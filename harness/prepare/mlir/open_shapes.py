"""Sizes for the dimensions that the entry function of a module leaves open, and what follows from them.

Names of dimensions are those of `jax.export`: an argument `jax.global_constant = "b"` of the function that it wraps,
which is handed the size of a dimension.
"""

from __future__ import annotations

import functools
from typing import Any

from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from opscope.harness.prepare.mlir.door import Module, context, load, to_bytecode
from opscope.harness.prepare.mlir.file_models import FUNCTION, entry
from opscope.harness.prepare.mlir.traversal import ops_in
from opscope.harness.record.errors import InputError
from opscope.models.frontends import open_shapes
from opscope.models.frontends.base import Refused
from opscope.models.frontends.open_shapes import OPEN, Dim

MAIN = "main"
"""The name that jaxlib's refinement expects of the entry function."""
SYMBOL = "jax.global_constant"
_LONGEST = 200
"""Characters of a diagnostic that an error shows."""


def bind(module: Module, sizes: str, where: str) -> Module:
    """The module with sizes for the open dimensions of its entry's arguments; `sizes` is the text of `--shape`.

    Raises InputError for a wrong name or size, for dimensions that stay open, and where the sizes do not fit the ops.
    """
    function = entry(module, where)
    dims = arguments(function)
    try:
        bound = open_shapes.bound(dims, sizes, where)
        if left := {name: shape for name, shape in bound.items() if open_shapes.is_open(shape)}:
            raise Refused(where, "sizes for all open dimensions", open_shapes.listed(left), open_shapes.hint(left))
    except Refused as error:
        raise InputError(error.where, error.expected, error.got, error.hint) from None
    types = [
        f"tensor<{''.join(f'{size}x' for size in bound[name])}{value.type.element_type}>"
        if isinstance(value.type, ir.RankedTensorType)
        else str(value.type)
        for name, value in zip(_names(function), function.regions[0].blocks[0].arguments, strict=True)
    ]
    _rename(module, function, where)
    notes: list[str] = []
    _registered()
    handler: Any = context().attach_diagnostic_handler(lambda d: bool(notes.append(d.message)) or True)
    try:
        with context():
            PassManager.parse(f"builtin.module(stablehlo-refine-arguments{{types={','.join(types)}}})").run(
                module.operation
            )
        refined = _jax.mlir.refine_polymorphic_shapes(to_bytecode(module), validate_static_shapes=False)
    except (ir.MLIRError, _jax.JaxRuntimeError) as error:
        raise InputError(f"{where}: --shape {sizes}", "sizes that fit the model's ops", _reason(notes, error)) from None
    finally:
        handler.detach()
    return load(refined, where)


def folded(module: Module, where: str) -> Module:
    """The module with the sizes that follow from constants and from its arguments' own; as it is where nothing is open,
    where the arguments are or sizes have bounds, and where its ops refuse."""
    kinds = [str(kind) for kind in {value.type for op in ops_in(module) for value in op.results}]
    if not any("?" in kind for kind in kinds) or any("bounds" in kind for kind in kinds):
        return module
    function = entry(module, where)
    if any(open_shapes.is_open(dims) for dims in arguments(function).values()):
        return module
    notes: list[str] = []
    _registered()
    handler: Any = context().attach_diagnostic_handler(lambda d: bool(notes.append(d.message)) or True)
    try:
        _rename(module, function, where)
        return load(_jax.mlir.refine_polymorphic_shapes(to_bytecode(module), validate_static_shapes=False), where)
    except (ir.MLIRError, _jax.JaxRuntimeError, InputError):
        return module
    finally:
        handler.detach()


def hint(function: Any) -> str:
    """The options that would bind the open dimensions of a function's arguments; empty if it has none."""
    return open_shapes.hint(arguments(function))


@functools.cache
def _registered() -> None:
    stablehlo.register_stablehlo_passes()


def _names(function: Any) -> list[str]:
    """The arguments' names, as records and `--inputs` have them."""
    return [f"arg{index}" for index, _ in enumerate(function.regions[0].blocks[0].arguments)]


def arguments(function: Any) -> dict[str, list[Dim]]:
    """The dimensions of each argument; what is no tensor of known rank has none."""
    symbols = _symbols(function)
    return {
        name: [
            symbols.get((value.arg_number, index), OPEN)
            if value.type.is_dynamic_dim(index)
            else value.type.get_dim_size(index)
            for index in range(value.type.rank)
        ]
        if isinstance(value.type, ir.RankedTensorType)
        else []
        for name, value in zip(_names(function), function.regions[0].blocks[0].arguments, strict=True)
    }


def _symbols(function: Any) -> dict[tuple[int, int], str]:
    """(argument, dimension) -> its name."""
    functions = {
        op.operation.attributes["sym_name"].value: op.operation
        for op in function.parent.regions[0].blocks[0].operations
        if op.operation.name == FUNCTION
    }
    symbols = {}
    for view in function.regions[0].blocks[0].operations:
        call: Any = view.operation
        callee = functions.get(call.attributes["callee"].value) if call.name == "func.call" else None
        if callee is None or "arg_attrs" not in callee.attributes:
            continue
        for operand, attributes in zip(call.operands, callee.attributes["arg_attrs"], strict=True):
            size = operand.owner
            symbol = attributes[SYMBOL].value if SYMBOL in attributes else ""
            if symbol and getattr(size, "name", "") == "stablehlo.get_dimension_size":
                argument = size.operands[0]
                if isinstance(argument.owner, ir.Block):
                    symbols[argument.arg_number, size.attributes["dimension"].value] = symbol
    return symbols


def _rename(module: Module, function: Any, where: str) -> None:
    """Gives the entry function the name that the refinement looks for."""
    if function.attributes["sym_name"].value == MAIN:
        return
    names = [str(op.attributes["sym_name"]) for op in module.body.operations if "sym_name" in op.attributes]
    if f'"{MAIN}"' in names:
        raise InputError(where, "no other function @main beside the entry", f"@{MAIN}", "naming the entry @main")
    with context():
        function.attributes["sym_name"] = ir.StringAttr.get(MAIN)


def _reason(notes: list[str], error: Exception) -> str:
    """What jaxlib says of sizes that do not fit, without its advice."""
    text = notes[0] if notes else str(error).partition("error: ")[2] or str(error)
    line = text.removeprefix('loc("shape_assertion"): ').split("\n")[0]
    return line.partition(" Using the following polymorphic")[0].strip()[:_LONGEST]
