"""Files beside a backend's own file that it needs on another machine: modules that it imports, files that it names.

They are found in its source, which is not run: every import of a module that lies in its folder, every text that names
a file there (`"plan.json"`, `f"plan_{self.name}.json"`, whose open parts stand for any text), and what it declares as
`made_of`.
"""

from __future__ import annotations

import ast
import glob
from collections.abc import Iterator
from pathlib import Path

from opscope.base import patterns_files

LARGEST = 4 << 20
"""Bytes of the largest file that is taken: what is larger is a tool, which the other machine has its own of."""
MOST = 100
"""Files that are taken."""


def of(file: Path) -> tuple[list[Path], list[str]]:
    """The files that `file` needs in its folder or below, and the names of those that are not taken: too large, or in
    another folder."""
    needed, todo = {file}, [file]
    while todo:
        found = {path for path in _named_in(todo.pop()) if path.is_file()} - needed
        needed |= found
        todo += [path for path in found if path.suffix == ".py"]
    needed.remove(file)
    taken = sorted(path for path in needed if path.is_relative_to(file.parent) and path.stat().st_size <= LARGEST)
    taken = taken[:MOST]
    return taken, sorted(str(path) for path in needed.difference(taken))


def _named_in(file: Path) -> Iterator[Path]:
    """The files that a Python or a YAML file names."""
    folder = file.parent
    try:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text) if file.suffix == ".py" else None
    except (OSError, ValueError, SyntaxError):
        return
    if tree is None:
        yield from (folder / word for word in text.replace('"', " ").replace("'", " ").split() if "." in word)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None) or ""
            for name in (*names, module, *(f"{module}.{name}" for name in names)):
                place = folder.joinpath(*filter(None, name.split(".")))
                yield from (place.with_name(f"{place.name}.py"), place / "__init__.py")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_name(node.value):
            yield folder / node.value
        elif isinstance(node, ast.JoinedStr):
            yield from _found(folder, node)
        elif isinstance(node, ast.Assign) and any(getattr(each, "id", "") == "made_of" for each in node.targets):
            words = [each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
            yield from (path for word in words if isinstance(word, str) for path in patterns_files.of(folder, word))


def _found(folder: Path, text: ast.JoinedStr) -> Iterator[Path]:
    """The files that a text with open parts may name: what stands in it decides, and must end in a kind of file."""
    parts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in text.values]
    if all(map(_is_name, filter(None, parts))) and Path("x" + parts[-1]).suffix:
        yield from folder.glob("".join(glob.escape(part) or "*" for part in parts))


def _is_name(text: str) -> bool:
    """Whether a text may be a file's name or path below a folder."""
    return 0 < len(text) < 200 and text.isprintable() and not text.startswith(("/", "~")) and ".." not in text
