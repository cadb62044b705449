"""Writes shardings over axes `data` and `model` onto the arguments of a module that has none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir import file_models
from opscope.harness.prepare.mlir.door import Module, parse, to_bytecode
from opscope.harness.prepare.mlir.values import tensor_desc
from opscope.harness.record.errors import InputError

AXES = ("data", "model")
RULES = "@model(shardings=...)"


def annotated(module: Module, names: Sequence[str], rules: Mapping[str, str], mesh: str) -> Module:
    """A copy of a module with the shardings that `rules` (pattern of an argument's name -> axes of its dims) give.

    `names` are those of the arguments; the first rule that fits one counts. Raises InputError for a rule that fits
    none, for axes that are not `data` or `model`, and for a mesh that is not `RxC`.
    """
    sizes = mesh.split("x")
    if len(sizes) != len(AXES):
        expected = f"ROWSxCOLUMNS for a model that is split over the axes {' and '.join(AXES)}"
        raise InputError("--mesh", expected, repr(mesh), f"1x{mesh}")
    copy = parse(to_bytecode(module))
    entry = file_models.entry(copy, "module")
    [block] = entry.regions[0].blocks
    used: set[str] = set()
    with copy.context, ir.Location.unknown():
        axes = ", ".join(f'"{axis}"={size}' for axis, size in zip(AXES, sizes, strict=True))
        ir.InsertionPoint.at_block_begin(copy.body).insert(ir.Operation.parse(f"sdy.mesh @mesh = <[{axes}]>"))
        marks = []
        for name, argument in zip(names, block.arguments, strict=True):
            rule = next((pattern for pattern in rules if re.fullmatch(pattern, name)), None)
            mark = {}
            if rule is not None:
                used.add(rule)
                mark["sdy.sharding"] = _sharding(rules[rule], len(tensor_desc(argument.type).shape))
            marks.append(ir.DictAttr.get(mark))
        entry.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
    if unused := sorted(set(rules) - used):
        raise InputError(RULES, "patterns of the names of arguments", repr(unused[0]), ", ".join(names[:4]))
    return copy


def _sharding(words: str, rank: int) -> ir.Attribute:
    """The attribute of `data,,model`: the axis of each dim, empty where it is whole; dims left out are whole."""
    dims = [word.strip() for word in words.split(",")]
    if len(dims) > rank or not set(dims) <= {"", *AXES}:
        raise InputError(RULES, f"axes data or model for at most {rank} dims", repr(words), "data,,model")
    dims += [""] * (rank - len(dims))
    inner = ", ".join(f'{{"{axis}"}}' if axis else "{}" for axis in dims)
    return ir.Attribute.parse(f"#sdy.sharding<@mesh, [{inner}]>")
