"""Names, order of parameters and defaults are those that TT-Buda's user guide prints."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from opscope import pybuda
from opscope.pybuda import __getattr__ as named
from opscope.simulator.host.errors import NoMeaningHere, NotThereYet
from opscope.simulator.host.names import NAMES, NO_MEANING, NOT_YET, PARTS

GUIDE = Path(__file__).parent / "data" / "user_guide_signatures.txt"
ROWS = [line for line in GUIDE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def attribute(path: str) -> Any:
    first, *rest = path.split(".")
    value = named(first)
    for part in rest:
        value = getattr(value, part)
    return value


def spelled(default: Any) -> str:
    return f"{type(default).__name__}.{default.name}" if isinstance(default, Enum) else repr(default)


def ours(function: Callable[..., Any]) -> list[str]:
    """Returns parameters as the guide writes them, without `self`."""
    shown, star = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        name = parameter.name
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            name, star = f"*{name}", True
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            name = f"**{name}"
        shown.append(name if parameter.default is parameter.empty else f"{name}={spelled(parameter.default)}")
    return shown


def theirs(text: str) -> list[str]:
    """Returns the parameters of a printed signature, defaults as Python writes them."""
    tree: Any = ast.parse(f"def f({text}): ...").body[0]
    arguments = tree.args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    shown = [_with(a.arg, d) for a, d in zip(arguments.args, defaults, strict=True)]
    if arguments.vararg:
        shown.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += [_with(a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return [*shown, f"**{arguments.kwarg.arg}"] if arguments.kwarg else shown


def _with(name: str, default: ast.expr | None) -> str:
    return name if default is None else f"{name}={ast.unparse(default)}"


def test_the_guide_has_all_its_parts() -> None:
    assert len(ROWS) == 137
    assert sum(row.startswith("op.") for row in ROWS) == 37


def test_each_signature_is_the_guides() -> None:
    for row in ROWS:
        path, _, rest = row.partition("(")
        got, expected = ours(attribute(path)), theirs(rest.removesuffix(")"))
        if path == "set_configuration_options":  # an unknown option is refused by name
            assert got.pop() == "**unknown"
        words = [[word.replace("1e-05", "1e-5") for word in each] for each in (got, expected)]
        assert words[0] == words[1], path


def test_every_name_is_there_or_says_why_not() -> None:
    for name in (*NAMES, *PARTS):
        assert getattr(pybuda, name) is not None
        assert name in dir(pybuda)
    for name in NO_MEANING:
        with pytest.raises(NoMeaningHere, match=name):
            getattr(pybuda, name)
    for name in NOT_YET:
        with pytest.raises(NotThereYet, match=name):
            getattr(pybuda, name)
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = pybuda.frobnicate
    assert not {*NAMES, *PARTS} & {*NO_MEANING, *NOT_YET}
