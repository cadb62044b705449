"""A module whose ops carry, as the outermost name of their location, their path as `prepare.split` counts it.

A compiler that keeps locations hands the name on to what it makes of an op, so that a value on a device can be laid
beside the value of the program that it stands for. A function that is called at several places is copied for each of
them, since each has values of its own; the ops of a composite's decomposition all carry the composite's path.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import Module, load, to_bytecode
from opscope.harness.prepare.paths import PART
from opscope.harness.prepare.split import BODIES, CALLS

COMPOSITE = "stablehlo.composite"
_CALLEE = {**dict.fromkeys(CALLS, "callee"), COMPOSITE: "decomposition"}


def tagged(module: Module | str | bytes) -> bytes:
    """Bytecode of `module` with tagged locations. Raises InputError if it cannot be read."""
    copy = load(to_bytecode(load(module)))
    with copy.context:
        _Tagger(copy).entry("main")
    return to_bytecode(copy)


class _Tagger:
    """One pass over a module, in the splitter's order."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.functions: dict[str, Any] = {}
        for view in module.body.operations:
            op: Any = view.operation
            if op.name == "func.func":
                self.functions[op.attributes["sym_name"].value] = op
        self.calls: list[str] = []

    def entry(self, name: str) -> None:
        """Tags the entry function, and copies of what it calls."""
        functions = dict(self.functions)
        public = [f for f in functions.values() if _visible(f)]
        chosen = functions.get(name) or (public[0] if len(public) == 1 else None)
        if chosen is not None:
            self.block(chosen.regions[0].blocks[0], "main", "")

    def block(self, block: Any, path: str, fixed: str) -> None:
        """Tags the ops of a block; `fixed` is the path of the composite that they are the decomposition of, if any."""
        ops = [view.operation for view in block.operations]
        returned = [value.owner for value in ops[-1].operands] if fixed else []
        part = f"{PART}{fixed.removeprefix(PART)}" if fixed else ""
        for index, op in enumerate(ops):
            spot = f"{path}/{index}"
            path_in_composite = fixed if op in returned else part
            op.location = ir.Location.name(path_in_composite or spot, op.location)
            if op.name in _CALLEE:
                self.call(op, spot, path_in_composite)
            elif op.name in BODIES:
                names = BODIES[op.name]
                for number, region in enumerate(op.regions):
                    label = names[number] if names else f"branch{number}"
                    self.block(region.blocks[0], f"{spot}.{label}", part)

    def call(self, op: Any, spot: str, fixed: str) -> None:
        """Gives a call a copy of its callee, tagged for this place; one that calls itself stays as it is."""
        attribute = _CALLEE[op.name]
        name = op.attributes[attribute].value
        function = self.functions.get(name)
        if function is None or name in self.calls or len(function.regions[0].blocks) != 1:
            return
        copy = function.clone(ip=ir.InsertionPoint(self.module.body)).operation
        unique = f"{name}.{len(list(self.module.body.operations))}"
        copy.attributes["sym_name"] = ir.StringAttr.get(unique)
        copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
        op.attributes[attribute] = ir.FlatSymbolRefAttr.get(unique)
        self.calls.append(name)
        composite = op.name == COMPOSITE
        self.block(copy.regions[0].blocks[0], f"{spot}@{name}", fixed or (spot if composite else ""))
        self.calls.pop()


def _visible(function: Any) -> bool:
    attributes = function.attributes
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"
