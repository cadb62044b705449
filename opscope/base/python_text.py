"""The syntax tree of a Python file, in a process with several threads."""

from __future__ import annotations

import ast
import contextlib

_ATTEMPTS = 20
"""How often a tree is made that another thread gets in the way of: each time for some ten microseconds."""


def parsed(text: bytes | str, name: str = "<unknown>") -> ast.Module:
    """The tree of a file. Raises SyntaxError, ValueError.

    CPython 3.11 counts the depth of the trees of all threads in one place, and raises SystemError ("AST constructor
    recursion depth mismatch", python/cpython#106905) where two threads make theirs at once: it is made once more.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(SystemError):
            return ast.parse(text, name)
    return ast.parse(text, name)
