"""tt-mlir's passes on composites and shardings of StableHLO, by jaxlib's own objects, printed as its tools print them.

Shardings are propagated op by op, so tt-mlir takes composites apart before and puts them together after: what was one
is marked by attributes `reoutline.*`, by which it is found again if nothing came between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jaxlib.mlir.ir as mlir
from jaxlib.mlir import passmanager

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.on_mesh import every, inline_manual

COMPOSITE = "stablehlo.composite"
SHARDED = frozenset(
    f"tenstorrent.{name}"
    for name in (
        "gather",
        "gather_dim",
        "layer_norm",
        "rms_norm",
        "scaled_dot_product_attention",
        "topk",
        "topk_indices",
        "topk_values",
    )
)
"""Composites with a rule of their own for shardings: they become custom calls that carry their attributes."""
GROUP, SEED, NAME, ATTRIBUTES = (f"reoutline.{word}" for word in ("group", "seed", "orig_name", "comp_attrs"))
OPERANDS, RESULTS = "reoutline.arg_operand_indices", "reoutline.result_pos"
CHANNELS = "reoutline.global_channels"
"""How many channels the whole tensor of a group_norm has, of which a chip may hold a part."""
MARKS = (GROUP, SEED, NAME, ATTRIBUTES, OPERANDS, RESULTS, CHANNELS)


def flatten_or_convert(module: mlir.Module) -> None:
    """Replaces each composite by a custom call, if it has a rule for shardings, or by its marked decomposition."""
    functions = _functions(module)
    for op in [op for op in every(module.operation) if op.name == COMPOSITE]:
        if op.attributes["name"].value in SHARDED:
            _as_custom_call(op)
        else:
            _flatten(op, functions)
    _drop_unused(module)


def _as_custom_call(op: Any) -> None:
    attributes = {
        "call_target_name": op.attributes["name"],
        "api_version": mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), 0),
        "tt.has_custom_sharding": mlir.UnitAttr.get(),
    }
    if "composite_attributes" in op.attributes:
        attributes["tt.composite_attributes"] = op.attributes["composite_attributes"]
    with mlir.InsertionPoint(op), op.location:
        call = mlir.Operation.create(
            "stablehlo.custom_call",
            results=[r.type for r in op.results],
            operands=list(op.operands),
            attributes=attributes,
        )
    _replace(op, list(call.results))


def _flatten(op: Any, functions: dict[str, Any]) -> None:
    """Puts the decomposition in the composite's place. Each op says which operands are the composite's, and which
    results; the first one says what it was.
    """
    callee = op.attributes["decomposition"].value
    (block,) = functions[callee].regions[0].blocks
    values: dict[Any, Any] = dict(zip(block.arguments, op.operands, strict=True))
    numbers = {argument: at for at, argument in enumerate(block.arguments)}
    (*body, end) = [wrapper.operation for wrapper in block.operations]
    positions = {value: at for at, value in enumerate(end.operands)}
    seed = True
    for old in body:
        with mlir.InsertionPoint(op):
            new = old.clone().operation
        for at, operand in enumerate(old.operands):
            new.operands[at] = values[operand]
        new.attributes[GROUP] = mlir.StringAttr.get(f"composite_{callee}")
        if any(operand in numbers for operand in old.operands):
            new.attributes[OPERANDS] = mlir.DenseI64ArrayAttr.get([numbers.get(v, -1) for v in old.operands])
        if any(result in positions for result in old.results):
            new.attributes[RESULTS] = mlir.DenseI64ArrayAttr.get([positions.get(v, -1) for v in old.results])
        if seed:
            new.attributes[SEED] = mlir.UnitAttr.get()
            new.attributes[NAME] = op.attributes["name"]
            if "composite_attributes" in op.attributes:
                attributes = new.attributes[ATTRIBUTES] = op.attributes["composite_attributes"]
                if "num_groups" in attributes:
                    dim = mlir.IntegerAttr(attributes["channel_dim"]).value if "channel_dim" in attributes else 1
                    size = mlir.RankedTensorType(op.operands[0].type).shape[dim]
                    new.attributes[CHANNELS] = mlir.IntegerAttr.get(mlir.IntegerType.get_signless(64), size)
            seed = False
        values.update(zip(old.results, new.results, strict=True))
    _replace(op, [values[value] for value in end.operands])


def reoutline(module: mlir.Module) -> None:
    """Makes a composite of each group of marked ops that is still whole, with its ops as a private function."""
    groups: dict[tuple[Any, str], list[Any]] = {}
    for op in every(module.operation):
        if GROUP in op.attributes:
            groups.setdefault((op.parent, op.attributes[GROUP].value), []).append(op)
    for (_, name), ops in groups.items():
        _reoutline(module, name, ops)


def _reoutline(module: mlir.Module, name: str, ops: list[Any]) -> None:
    seeds = [op for op in ops if SEED in op.attributes]
    if len(seeds) != 1:
        return
    made = {result for op in ops for result in op.results}
    if _interrupted(ops, made):
        return
    arguments = _arguments(ops, made)
    results = _results(ops)
    taken, function = _functions(module), f"outlined_{name}"
    while function in taken:
        function += "_0"
    _function(module, function, ops, arguments, results)
    attributes = {
        "name": seeds[0].attributes[NAME],
        "decomposition": mlir.FlatSymbolRefAttr.get(function),
        "version": mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), 0),
    }
    if ATTRIBUTES in seeds[0].attributes:
        attributes["composite_attributes"] = _local(seeds[0], arguments)
    with mlir.InsertionPoint.after(ops[-1]), ops[-1].location:
        composite = mlir.Operation.create(
            COMPOSITE, results=[v.type for v in results], operands=arguments, attributes=attributes
        )
    for old, new in zip(results, composite.results, strict=True):
        old.replace_all_uses_except(new, list(ops))
    for op in reversed(ops):
        op.erase()


def _local(seed: Any, arguments: list[Any]) -> Any:
    """Returns a composite's attributes; groups of channels count those that this chip holds.

    Raises CompilerInputError if a group would lie on several chips.
    """
    attributes = seed.attributes[ATTRIBUTES]
    if CHANNELS not in seed.attributes or "num_groups" not in attributes:
        return attributes
    whole, groups = (mlir.IntegerAttr(at).value for at in (seed.attributes[CHANNELS], attributes["num_groups"]))
    dim = mlir.IntegerAttr(attributes["channel_dim"]).value if "channel_dim" in attributes else 1
    here = mlir.RankedTensorType(arguments[0].type).shape[dim]
    if groups * here % whole:
        raise CompilerInputError(
            f"reoutline-composite: expected whole groups on a chip, got {here} of {whole} channels in {groups} groups"
        )
    entries = {entry.name: entry.attr for entry in attributes}
    entries["num_groups"] = mlir.IntegerAttr.get(mlir.IntegerType.get_signless(64), groups * here // whole)
    return mlir.DictAttr.get(entries)


def _interrupted(ops: Sequence[Any], made: set[Any]) -> bool:
    """Whether an op that is not of the group reads a value of it and makes one that the group reads."""
    group = set(ops)
    reached = set(made)
    started = False
    (block,) = {op.block for op in ops} if len({str(id(op.block)) for op in ops}) == 1 else (ops[0].block,)
    for wrapper in block.operations:
        op = wrapper.operation
        started = started or op in group
        if not started:
            continue
        if op in group:
            if any(operand in reached and operand not in made for operand in op.operands):
                return True
        elif any(operand in reached for operand in op.operands):
            reached.update(op.results)
    return False


def _arguments(ops: Sequence[Any], made: set[Any]) -> list[Any]:
    """The values from outside: in the order of the composite's operands where these are marked, then as they appear."""
    placed: dict[int, Any] = {}
    others: dict[Any, None] = {}
    for op in ops:
        marks = list(mlir.DenseI64ArrayAttr(op.attributes[OPERANDS])) if OPERANDS in op.attributes else []
        for at, operand in enumerate(op.operands):
            if operand in made:
                continue
            if at < len(marks) and marks[at] >= 0:
                placed.setdefault(marks[at], operand)
            else:
                others.setdefault(operand)
    return [*(placed[at] for at in sorted(placed)), *(value for value in others if value not in placed.values())]


def _results(ops: Sequence[Any]) -> list[Any]:
    """The values that leave the group: in the order of the composite's results where these are marked."""
    placed: dict[int, Any] = {}
    for op in ops:
        marks = list(mlir.DenseI64ArrayAttr(op.attributes[RESULTS])) if RESULTS in op.attributes else []
        for result, place in zip(op.results, marks, strict=False):
            if place >= 0:
                placed[place] = result
    group = set(ops)
    if placed:
        return [placed[at] for at in sorted(placed)]
    return [v for op in ops for v in op.results if any(use.owner.operation not in group for use in v.uses)]


def _function(module: mlir.Module, name: str, ops: Sequence[Any], arguments: list[Any], results: list[Any]) -> None:
    types = mlir.FunctionType.get([v.type for v in arguments], [v.type for v in results])
    with mlir.InsertionPoint(module.body), mlir.Location.unknown():
        function = mlir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": mlir.StringAttr.get(name),
                "function_type": mlir.TypeAttr.get(types),
                "sym_visibility": mlir.StringAttr.get("private"),
            },
        )
        block = function.regions[0].blocks.append(*(v.type for v in arguments), arg_locs=None)
    values: dict[Any, Any] = dict(zip(arguments, block.arguments, strict=True))
    with mlir.InsertionPoint(block):
        for old in ops:
            new = old.clone().operation
            for at, operand in enumerate(old.operands):
                new.operands[at] = values[operand]
            for key in MARKS:
                if key in new.attributes:
                    del new.attributes[key]
            values.update(zip(old.results, new.results, strict=True))
        with mlir.Location.unknown():
            mlir.Operation.create("func.return", operands=[values[v] for v in results])


def canonicalise_collectives(module: mlir.Module) -> None:
    """Shardy's own simplifications: an all_reduce of which each chip keeps a slice is a reduce_scatter."""
    passmanager.PassManager.parse("builtin.module(canonicalize,cse,canonicalize)").run(module.operation)


PASSES: dict[str, Callable[[mlir.Module], None]] = {
    "flatten-or-convert-composites": flatten_or_convert,
    "reoutline-composite": reoutline,
    "shardy-ccl-canonicalization": canonicalise_collectives,
    "stablehlo-pipeline": inline_manual,
}
"""tt-mlir's name of a pass on StableHLO -> what does it here."""


def rewritten(module: mlir.Module, names: Sequence[str]) -> str:
    """Runs these passes, in place, and returns the module's text. Raises CompilerInputError if that is no module."""
    for name in names:
        PASSES[name](module)
        try:
            module.operation.verify()
        except mlir.MLIRError as error:
            raise CompilerInputError(f"{name}: expected a valid module after it, got: {error}") from error
    return str(module.operation.get_asm(enable_debug_info=False)) + "\n"


def _functions(module: mlir.Module) -> dict[str, Any]:
    ops: list[Any] = [wrapper.operation for wrapper in module.body.operations]
    return {op.attributes["sym_name"].value: op for op in ops if op.name == "func.func"}


def _replace(op: Any, values: Sequence[Any]) -> None:
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _is_private(function: Any) -> bool:
    attributes: Any = function.attributes
    return "sym_visibility" in attributes and attributes["sym_visibility"].value == "private"


def _drop_unused(module: mlir.Module) -> None:
    """Erases private functions that nothing names any more."""
    while True:
        named = " ".join(str(op.attributes) for op in every(module.operation) if op.name in ("func.call", COMPOSITE))
        spare = [
            function
            for name, function in _functions(module).items()
            if _is_private(function) and f"@{name}" not in named
        ]
        if not spare:
            return
        for function in spare:
            function.erase()
