"""Finds ops in a module: all of them, those in regions too, and the function `@main`."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir


def ops_in(root: ir.Module | ir.Operation | Any, *names: str, order: Any = ir.WalkOrder.POST_ORDER) -> list[Any]:
    """Every op in `root`, which is among them: inner ones first, or in program order; with names, those alone.

    A list, since callers rewrite the ops.
    """
    ops: list[Any] = []

    def note(op: Any) -> Any:
        if not names or op.name in names:
            ops.append(op.operation)
        return ir.WalkResult.ADVANCE

    root.operation.walk(note, order)
    return ops


def main_of(module: ir.Module) -> Any:
    """The function `@main` of a module that has one."""
    functions = [view.operation for view in module.body.operations if "sym_name" in view.operation.attributes]
    return next(op for op in functions if ir.StringAttr(op.attributes["sym_name"]).value == "main")
