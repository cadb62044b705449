"""Takes out of a program what carries no value: tokens, and calls of Python functions that give nothing back.

JAX exports an ordered effect (`jax.debug.print(ordered=True)`) as a call of a function of the process that exported it,
and a token that every later effect takes, from an argument of `@main` to one of its results. No array is a token, the
function is not in the program, and no result depends on either: ops, whole models and backends see neither.
"""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir

from opscope.base.stablehlo.python_calls import why_not_run
from opscope.harness.prepare.mlir.door import Module
from opscope.harness.prepare.mlir.single_op import TOKEN
from opscope.harness.prepare.mlir.traversal import ops_in

FUNCTION = "func.func"
_CONTROL = ("while", "if", "case", "optimization_barrier", "return")
HAND_ON = frozenset([*(f"stablehlo.{name}" for name in _CONTROL), "func.call", "call", "func.return"])
"""Ops that hand tokens on beside values. Any other that takes one gets a token of its own."""
MAKERS = ("stablehlo.create_token", "stablehlo.after_all")
_TRACES = re.compile(rb"jax\.token|create_token|after_all")
"""What the bytecode of a program has that an exporter wrote and that has effects."""
_ALIAS = "tf.aliasing_output"
"""The number of the result that an argument's buffer may be used for."""


def may_have_effects(bytecode: bytes) -> bool:
    """Whether an exported program may have tokens or call Python; of one that has neither, it costs next to nothing."""
    return _TRACES.search(bytecode) is not None or bool(why_not_run(bytecode))


def without_effects(module: Module) -> str:
    """Takes tokens, and calls of Python without a value, out of a module, in place.

    Returns in words what was left out that a user wrote; empty if that is nothing.
    """
    left_out = 0
    with module.context:
        for op in reversed(ops_in(module)):  # what uses a token comes before what makes it
            tokens = _tokens(op.operands), _tokens(op.results)
            if op.name in HAND_ON and any(tokens):
                _hand_on_values(op, *tokens)
            elif _is_python(op) and len(tokens[1]) == len(op.results):
                op.erase()
                left_out += 1
            elif op.name in MAKERS and not list(op.results[0].uses):
                op.erase()
            elif op.name not in HAND_ON:
                for number in tokens[0]:
                    made = ir.Operation.create(MAKERS[0], results=[op.operands[number].type], loc=op.location)
                    ir.InsertionPoint(op).insert(made)
                    op.operands[number] = made.results[0]
        for op in ops_in(module):
            for block in (block for region in op.regions for block in region.blocks):
                for number in reversed(_tokens(block.arguments)):
                    block.erase_argument(number)
            if op.name == FUNCTION:
                _retype(op)
    if not left_out:
        return ""
    _erase_unused_meshes(module)
    calls = "1 call" if left_out == 1 else f"{left_out} calls"
    return f"{calls} of Python that give the program no value, as debug prints do"


def _tokens(values: Any) -> list[int]:
    """The numbers of the tokens among values."""
    return [number for number, value in enumerate(values) if str(value.type) == TOKEN]


def _is_python(op: Any) -> bool:
    """Whether an op calls a Python function of the process that exported it."""
    if op.name != "stablehlo.custom_call":
        return False
    return bool(why_not_run(ir.StringAttr(op.attributes["call_target_name"]).value.encode()))


def _erase_unused_meshes(module: Module) -> None:
    """Erases the mesh of one device on which a call was, which compilers refuse that do not know Shardy."""
    meshes = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in ops_in(module, "sdy.mesh")}
    text = str(module) if meshes else ""
    for name, op in meshes.items():
        if len(re.findall(rf"@{re.escape(name)}\b", text)) == 1:
            op.erase()


def _hand_on_values(op: Any, operands: list[int], results: list[int]) -> None:
    """Puts an op in the place of one that hands on tokens, which it hands on no more. Nothing reads these."""
    kept = [number for number in range(len(op.results)) if number not in results]
    new = ir.Operation.create(
        op.name,
        results=[op.results[number].type for number in kept],
        operands=[value for number, value in enumerate(op.operands) if number not in operands],
        attributes={name: op.attributes[name] for name in op.attributes},
        regions=len(op.regions),
        loc=op.location,
    )
    ir.InsertionPoint(op).insert(new)
    for old, region in zip(op.regions, new.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(region)
    for number, result in zip(kept, new.results, strict=True):
        op.results[number].replace_all_uses_with(result)
    op.erase()


def _retype(function: Any) -> None:
    """Gives a function the type that it has without tokens."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    sides = {"arg_attrs": kind.inputs, "res_attrs": kind.results}
    kept = {name: [n for n, each in enumerate(types) if str(each) != TOKEN] for name, types in sides.items()}
    if all(len(kept[name]) == len(types) for name, types in sides.items()):
        return
    inputs, results = ([types[number] for number in kept[name]] for name, types in sides.items())
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for name in sides:
        if name in function.attributes:
            attributes = list(ir.ArrayAttr(function.attributes[name]))
            left = [_aliased(attributes[number], kept["res_attrs"]) for number in kept[name]]
            function.attributes[name] = ir.ArrayAttr.get(left)


def _aliased(attributes: Any, results: list[int]) -> Any:
    """The attributes of an argument, where the result whose buffer it shares has its new number."""
    named = {each.name: each.attr for each in ir.DictAttr(attributes)}
    if _ALIAS in named:
        number = ir.IntegerAttr(named[_ALIAS])
        named[_ALIAS] = ir.IntegerAttr.get(number.type, results.index(number.value))
    return ir.DictAttr.get(named)
