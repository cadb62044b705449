"""Syntax trees of those statements of a module that a test looks at: to parse all takes two or three times as long."""

from __future__ import annotations

import ast
import re

_BEGIN = re.compile(r"\n(?=[A-Za-z_])")


def parsed(source: str, pattern: re.Pattern[str]) -> list[tuple[int, ast.Module]]:
    """Of the statements of a module in whose text `pattern` is found: how many lines are before each, and its tree.

    Those of the whole module where a line of a text looks like the beginning of a statement.
    """
    line, found = 0, []
    for statement in _BEGIN.split(source):
        if pattern.search(statement):
            try:
                found.append((line, ast.parse(statement)))
            except SyntaxError:
                return [(0, ast.parse(source))]
        line += statement.count("\n") + 1
    return found
