"""What a program draws by an algorithm of each implementation's own: bounds, and draws as results and as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from opscope.harness.prepare.mlir import file_models
from opscope.harness.prepare.mlir.door import Module, context, load
from opscope.harness.prepare.mlir.single_op import inner_ops
from opscope.harness.prepare.mlir.traversal import ops_in
from opscope.harness.prepare.mlir.values import constant_array, tensor_desc
from opscope.harness.prepare.own_random_numbers import draws_by_itself
from opscope.harness.record.records import TensorDesc

FUNCTION, CALLS = "func.func", frozenset({"func.call", "call"})
MOST_OPS = 100_000
"""Ops of a program whose functions are expanded."""


def bounds(module: bytes, inputs: Sequence[np.ndarray]) -> tuple[float, float]:
    """The bounds of the interval, or mean and deviation, of the one such op of a module with these arguments."""
    loaded = load(module)  # named, since its ops live no longer than it does
    [block] = loaded.body.operations[0].operation.regions[0].blocks
    values: dict[ir.Value, np.ndarray] = dict(zip(block.arguments, inputs, strict=True))
    for view in block.operations:
        op = view.operation
        if op.name == "stablehlo.rng":
            low, high = (float(values[operand].reshape(())) for operand in list(op.operands)[:2])
            return low, high
        if op.name == "stablehlo.constant" and (array := constant_array(op)) is not None:
            values[op.results[0]] = array
    raise ValueError("stablehlo.rng: expected one in its module, got none; try preparing the model again")


def with_draws_returned(module: Module) -> list[TensorDesc]:
    """Has the entry of a program return what its ops draw, after its results, in place; returns the types of these.

    Functions that draw are expanded where they are called. None if something is drawn in a loop or a branch, which
    draws as often as it likes.
    """
    with context():
        main, drawing = file_models.entry(module, "the program"), _drawing(module)
        if any(op.name in CALLS and _callee(op) in drawing for each in drawing.values() for op in _nested(each)):
            return []
        while calls := [op for op in _ops(main) if op.name in CALLS and _callee(op) in drawing]:
            if len(_ops(main)) > MOST_OPS:
                return []  # functions that call each other
            for call in calls:
                expand(call, drawing[_callee(call)])
        draws = [op for op in _ops(main) if _draws(op)]
        if not draws or any(map(_draws, _nested(main))):
            return []
        drawn = [value for op in draws for value in op.results]
        _end(main, [*_ops(main)[-1].operands, *drawn])
    return [tensor_desc(value.type) for value in drawn]


def with_draws_given(module: Module, count: int) -> Module:
    """The program that takes its `count` draws after its arguments, and no more returns them; in place."""
    with context(), ir.Location.unknown():
        main = file_models.entry(module, "the program")
        [block] = main.regions[0].blocks
        results = list(_ops(main)[-1].operands)
        _end(main, results[: len(results) - count])
        for op in [op for op in _ops(main) if _draws(op)]:
            for value in op.results:
                value.replace_all_uses_with(block.add_argument(value.type, op.location))
            op.erase()
        _retype(main)
    return module


def _ops(function: Any) -> list[Any]:
    [block] = function.regions[0].blocks
    return [view.operation for view in block.operations]


def _nested(function: Any) -> list[Any]:
    """The ops in the loops and branches of a function."""
    return [inner for op in _ops(function) for inner in inner_ops(op)]


def _draws(op: Any) -> bool:
    algorithm = str(op.attributes["rng_algorithm"]) if "rng_algorithm" in op.attributes else ""
    return draws_by_itself(op.name, {"rng_algorithm": algorithm})


def _drawing(module: Module) -> dict[str, Any]:
    """The functions that draw, or call one that does, by their names."""
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in ops_in(module, FUNCTION)}
    callees = {name: {_callee(op) for op in inner_ops(op) if op.name in CALLS} for name, op in functions.items()}
    found = {name for name, op in functions.items() if any(map(_draws, inner_ops(op)))}
    while more := {name for name in functions if name not in found and callees[name] & found}:
        found |= more
    return {name: functions[name] for name in found}


def _callee(call: Any) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def expand(call: Any, function: Any) -> None:
    """Puts copies of a function's ops in the place of a call."""
    [block] = function.regions[0].blocks
    values: dict[Any, Any] = dict(zip(block.arguments, call.operands, strict=True))
    *ops, end = _ops(function)
    for op in ops:
        clone = op.clone(ir.InsertionPoint(call))
        for old, new in zip((op, *inner_ops(op)), (clone, *inner_ops(clone)), strict=True):
            for number, value in enumerate(old.operands):
                if value in values:
                    new.operands[number] = values[value]
        values |= zip(op.results, clone.results, strict=True)
    for result, value in zip(call.results, end.operands, strict=True):
        result.replace_all_uses_with(values[value])
    call.erase()


def _end(main: Any, results: Sequence[Any]) -> None:
    """Has a function return other values."""
    end = _ops(main)[-1]
    with end.location:
        ir.Operation.create(end.name, operands=list(results), ip=ir.InsertionPoint(end))
    end.erase()
    _retype(main)


def _retype(main: Any) -> None:
    """Gives a function the type of its arguments and of what it returns. What was said of these is dropped."""
    [block] = main.regions[0].blocks
    kinds = [value.type for value in block.arguments], [value.type for value in _ops(main)[-1].operands]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
    for name in ("arg_attrs", "res_attrs"):
        if name in main.attributes:
            del main.attributes[name]
