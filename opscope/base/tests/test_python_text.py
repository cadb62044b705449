"""Syntax trees, also where another thread makes one at the same time."""

from __future__ import annotations

import ast

import pytest

from opscope.base.python_text import parsed


def test_a_tree_is_made_once_more_where_another_thread_came_between(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, calls = ast.parse, []

    def disturbed(text: str, name: str) -> ast.Module:
        calls.append(text)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=51, after=48)")
        return plain(text, name)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(parsed("x = 1")) == "x = 1"
    assert len(calls) == 3


def test_what_is_no_python_is_said() -> None:
    with pytest.raises(SyntaxError):
        parsed("x = ", "model.py")
