"""The models in a file of StableHLO: its public functions, in one module or in several, each as a module of its own.

A public function that another function calls is part of that one, and no model. Names are `fn`, or `module.fn` where
the file has several top-level modules; a module without a name has its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir, passmanager

from opscope.harness.prepare.mlir.door import Module, context
from opscope.harness.prepare.mlir.traversal import ops_in
from opscope.harness.record.errors import InputError

FUNCTION, VISIBILITY = "func.func", "sym_visibility"


def names(module: Module) -> list[str]:
    """The models of a module, in the file's order; one that has no public function has none."""
    several = list(_modules(module))
    if several:
        return [f"{label}.{name}" for label, inner in several for name in _entries(inner)]
    return _entries(module.operation)


def select(module: Module, name: str, where: str) -> Module:
    """The module of one model: the others' functions are left out. Raises InputError for a name that it has not."""
    label, _, function = name.rpartition(".")
    modules = dict(_modules(module)) or {"": module.operation}
    inner = modules.get(label)
    if inner is None or function not in _functions(inner):
        known = names(module)
        hint = f"{where}:{known[0]}" if known else ""
        raise InputError(where, f"a public function {name!r}", ", ".join(known) or "none", hint)
    with context():
        alone = ir.Module.parse(inner.get_asm(enable_debug_info=True, print_generic_op_form=True))
        for function_name, op in _functions(alone.operation).items():
            op.attributes[VISIBILITY] = ir.StringAttr.get("public" if function_name == function else "private")
        passmanager.PassManager.parse("builtin.module(symbol-dce)").run(alone.operation)
    return alone


def entry(module: Module, where: str) -> Any:
    """The public function `main`, else the only public one, else a private `main`. Raises InputError for none."""
    functions = _functions(module.operation)
    public = {name: op for name, op in functions.items() if _text(op, VISIBILITY) in ("", "public")}
    main = public.get("main") or (next(iter(public.values())) if len(public) == 1 else functions.get("main"))
    if main is None:
        names = ", ".join(f"@{name}" for name in functions) or "no function"
        raise InputError(where, "a function @main, or one public function", names, "naming the entry @main")
    if not list(main.regions[0].blocks):
        name = _text(main, "sym_name")
        raise InputError(f"{where}: @{name}", "a function with a body", "a declaration", "exporting the whole model")
    return main


def call_main(module: Module, entry: Any) -> None:
    """Gives the entry the name `main`, which some compilers ask for, where no function has it."""
    if "main" not in _functions(module.operation):
        with module.context, ir.Location.unknown():
            entry.attributes["sym_name"] = ir.StringAttr.get("main")


def _modules(module: Module) -> Iterator[tuple[str, Any]]:
    """The top-level modules of a file that has several, with their names or numbers."""
    inner = [op.operation for op in module.body.operations if op.operation.name == "builtin.module"]
    for number, op in enumerate(inner):
        yield (_text(op, "sym_name") or str(number)), op


def _text(op: Any, attribute: str) -> str:
    """The text of an op's attribute; empty if it has none."""
    return op.attributes[attribute].value if attribute in op.attributes else ""


def _functions(module: Any) -> dict[str, Any]:
    """The functions of a module by their names."""
    operations = [op.operation for op in module.regions[0].blocks[0].operations]
    return {op.attributes["sym_name"].value: op for op in operations if op.name == FUNCTION}


def _entries(module: Any) -> list[str]:
    """The public functions of a module that no other function of it calls."""
    functions = _functions(module)
    callees = [
        op.attributes["callee"]
        for function in functions.values()
        for op in ops_in(function)
        if "callee" in op.attributes
    ]
    called = {ir.FlatSymbolRefAttr(callee).value for callee in callees}
    return [name for name, op in functions.items() if name not in called and _text(op, VISIBILITY) in ("", "public")]
