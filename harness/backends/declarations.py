"""What the class of a backend declares, read from its source: importing a compiler takes seconds.

Constants and methods of the bodies of the class and of the classes that it inherits from, as far as these are in the
same file or in a module of this project.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from opscope.base.python_text import parsed

_OURS = "opscope."
_BASE = "Backend"
"""The class at which reading ends: it declares nothing but defaults."""


class Declarations(NamedTuple):
    """The declarations of a class."""

    constants: dict[str, object]
    methods: frozenset[str]


NOTHING = Declarations({}, frozenset())


@cache
def read(source: Path, name: str) -> Declarations:
    """What the class of `source` with `name = NAME` in its body declares; nothing if there is no such class."""
    classes, imported = _file(source)
    for node in classes.values():
        if _constants(node).get("name") == name:
            bodies = list(_ancestry(node, classes, imported))
            constants: dict[str, object] = {}
            for body in reversed(bodies):
                constants |= _constants(body)
            return Declarations(constants, frozenset(method for body in bodies for method in _methods(body)))
    return NOTHING


@cache
def _file(source: Path) -> tuple[dict[str, ast.ClassDef], dict[str, tuple[str, str]]]:
    """The classes of a file, and the names that it imports from modules of ours, each with its module."""
    try:
        tree = parsed(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}, {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    imported = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith(_OURS)
        for alias in node.names
        if node.module
    }
    return classes, imported


def _ancestry(
    node: ast.ClassDef, classes: dict[str, ast.ClassDef], imported: dict[str, tuple[str, str]]
) -> Iterator[ast.ClassDef]:
    """A class and those that it inherits from, nearest first."""
    yield node
    for base in node.bases:
        if not isinstance(base, ast.Name) or base.id == _BASE:
            continue
        if base.id in classes:
            yield from _ancestry(classes[base.id], classes, imported)
        elif base.id in imported:
            module, name = imported[base.id]
            try:
                spec = importlib.util.find_spec(module)
            except (ImportError, ValueError):
                continue
            if spec is not None and spec.origin:
                others, further = _file(Path(spec.origin))
                if name in others:
                    yield from _ancestry(others[name], others, further)


def _constants(node: ast.ClassDef) -> dict[str, object]:
    """The constants that a class body assigns; products and shifts of whole numbers count, as in `400 << 20`."""
    targets = [(statement.targets[0], statement.value) for statement in node.body if isinstance(statement, ast.Assign)]
    targets += [
        (statement.target, statement.value)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and statement.value is not None
    ]
    values = ((target.id, _value(value)) for target, value in targets if isinstance(target, ast.Name))
    return {name: value[0] for name, value in values if value is not None}


def _value(node: ast.expr) -> tuple[object] | None:
    """The value of an expression of constants; None if it is no such expression."""
    if isinstance(node, ast.Constant):
        return (node.value,)
    if isinstance(node, (ast.Tuple, ast.List)):
        values = [_value(each) for each in node.elts]
        return (tuple(each[0] for each in values if each is not None),) if None not in values else None
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if left is not None and right is not None and isinstance(left[0], int) and isinstance(right[0], int):
            if isinstance(node.op, ast.LShift):
                return (left[0] << right[0],)
            if isinstance(node.op, ast.Mult):
                return (left[0] * right[0],)
            if isinstance(node.op, ast.Pow):
                return (left[0] ** right[0],)
    return None


def _methods(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name
