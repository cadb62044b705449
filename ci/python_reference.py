"""docs/python.md: what `opscope` and `opscope.compiler.api` have for Python, from their docstrings: `make python`.

Everything above MARK is written by hand. Below it stand signatures, docstrings, and what follows the fields of classes.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import opscope
from opscope.base.statuses import STATUSES
from opscope.harness.record.measures import MEASURES
from opscope.harness.record.stages import Status
from opscope.harness.run.op_tests import OpTests

PAGE = Path(__file__).resolve().parent.parent / "docs" / "python.md"
MARK = "<!-- `make python` writes everything below this line from docstrings. -->"
WIDTH = 110
"""Columns of a signature."""

GLUE = "\0"
"""A space at which no line ends."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Runs": ("run_op_by_op", "split", "OpTests", "OpTest", "Status", "Stage", "ResultOptions"),
    "Judging": ("judge", "Verdict"),
    "Stored results": ("frames",),
    "Backends": (
        *("Backend", "Job", "Target", "StageError", "StageCrashError"),
        *("BackendError", "Declined", "Xla"),
    ),
    "Models": ("model", "Built", "ArgSpec", "TorchBuilt"),
    "The compiler: `opscope.compiler.api`": ("compiler.api",),
}


def page(current: str) -> str:
    """The page with today's docstrings; what stands above MARK in `current` stays. Raises ValueError without MARK."""
    head, mark, _ = current.partition(MARK)
    if not mark:
        raise ValueError(f"docs/python.md: expected the line {MARK!r}, got none; try git checkout docs/python.md")
    parts = [f"{head}{MARK}\n\n## Reference\n"]
    for heading, names in SECTIONS.items():
        parts.append(f"\n### {heading}\n")
        for name in names:
            parts += _described(name)
    return "".join(parts)


def _described(name: str) -> Iterator[str]:
    """All of one name: a function, a class with its fields, methods and exceptions, or the functions of a module."""
    if name == "compiler.api":
        thing: Any = import_module("opscope.compiler.api")
    else:
        thing = OpTests if name == "OpTests" else getattr(opscope, name)
    if inspect.ismodule(thing):
        yield f"\n{inspect.getdoc(thing)}\n"
        own = {
            each: function
            for each, function in inspect.getmembers(thing, inspect.isfunction)
            if each in vars(thing) and function.__module__ == thing.__name__ and not each.startswith("_")
        }
        for each, function in own.items():
            yield from _function(f"{name}.{each}", function)
            yield from _columns(getattr(thing, "COLUMNS", {}).get(each, {}))
        if name == "frames":
            views = ", ".join(f"`{each}`" for each in dir(thing) if each not in own)
            yield f"\nViews ([metrics](metrics.md)): {views}.\n"
    elif inspect.isclass(thing):
        yield f"\n#### `{name}`\n\n{inspect.getdoc(thing)}\n"
        if thing.__base__ not in {getattr(opscope, each) for each in opscope.__all__}:
            yield from _members(thing)
    else:
        yield from _function(name, thing)


def _columns(columns: Mapping[str, Any]) -> Iterator[str]:
    """A table of the columns of a frame."""
    if columns:
        yield "\n| column | type | meaning |\n|---|---|---|\n"
        yield from (f"| `{name}` | {column.dtype} | {column.meaning} |\n" for name, column in columns.items())


def _function(name: str, function: Any) -> Iterator[str]:
    doc = inspect.getdoc(function) or ""
    yield f"\n#### `{name}`\n\n```python\n{signature(name, function)}\n```\n\n{doc}\n"


def signature(name: str, function: Any) -> str:
    """`name(parameter: type = default, ...) -> type`, in lines of WIDTH columns, without `self`."""
    known = inspect.signature(function)
    given = [each for each in known.parameters.values() if each.name not in {"self", "cls"}]
    text = str(known.replace(parameters=given)).replace("typing.", "")
    text = re.sub(r"(?<=: )'([^']*)'|(?<=-> )'([^']*)'", lambda found: found[1] or found[2], text)
    text = re.sub(r"Optional\[([\w.]+)\]", r"\1 | None", text)
    text = re.sub(r"(?<!,) ", GLUE, text)  # lines end between parameters
    lines = textwrap.fill(
        f"{name}{text}", WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return lines.replace(GLUE, " ")


def _members(kind: type) -> Iterator[str]:
    """A table of the class's public fields, and its properties and methods in a line each."""
    fields = _fields(kind)
    explained = {name: meaning for name, meaning in fields.items() if meaning}
    if explained:
        yield "\n| field | meaning |\n|---|---|\n"
        yield from (f"| `{name}` | {meaning} |\n" for name, meaning in explained.items())
    if len(fields) > len(explained):
        rest = ", ".join(f"`{name}`" for name in fields if name not in explained)
        yield f"\n{'And' if explained else 'It has'} {rest}.\n"
    calls: dict[str, str] = {}
    for owner in kind.__mro__:
        if not owner.__module__.startswith("opscope."):
            continue
        for name, member in vars(owner).items():
            function = member.fget if isinstance(member, property) else getattr(member, "func", member)
            function = getattr(function, "__func__", function)
            if name.startswith("_") or not inspect.isfunction(function) or function.__doc__ is None or name in calls:
                continue
            shown = name if function is not member else signature(name, function)
            calls[name] = f"- `{' '.join(shown.split())}`: {_sentence(function.__doc__)}\n"
    if calls:
        yield "\n"
        yield from calls.values()


def _fields(kind: type) -> dict[str, str]:
    """Public field and its type -> the text below it in the source, else what its row says; a member of an enum has the
    meaning that reports give."""
    if issubclass(kind, enum.Enum):
        return {str(member.value): STATUSES[str(member.value)].meaning if kind is Status else "" for member in kind}
    told: dict[str, tuple[str, str]] = {}
    for owner in kind.__mro__:
        if owner.__module__.startswith("opscope."):
            told = {**_texts(owner), **told}
    rows: dict[str, Any] = getattr(kind, "model_fields", {})
    fields: dict[str, str] = {}
    for name in rows or told:
        type_, text = told.get(name, ("", ""))
        row = (rows[name].description if name in rows else "") or (MEASURES[name].meaning if name in MEASURES else "")
        fields[f"{name}: {type_}" if type_ else name] = _cell(text or row)
    return fields


def _texts(owner: type) -> dict[str, tuple[str, str]]:
    """Public fields that the class itself has: the type of each, with a plain default, and the text below it."""
    try:
        source = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    except (OSError, TypeError):  # a class that is made while the program runs
        return {}
    assert isinstance(source, ast.ClassDef)
    texts: dict[str, tuple[str, str]] = {}
    for line, after in zip(source.body, [*source.body[1:], None], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not line.target.id.startswith("_"):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            type_ = line.annotation
            if isinstance(type_, ast.Subscript) and ast.unparse(type_.value) == "Annotated":
                type_ = cast("ast.Tuple", type_.slice).elts[0]
            default = f" = {line.value.value!r}" if isinstance(line.value, ast.Constant) else ""
            texts[line.target.id] = (ast.unparse(type_).replace("|", "\\|") + default, str(text))
    return texts


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _sentence(doc: str) -> str:
    """The first paragraph, in one line."""
    return _cell(inspect.cleandoc(doc).split("\n\n")[0])


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    place.write_text(page(place.read_text(encoding="utf-8")), encoding="utf-8")
