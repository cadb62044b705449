"""The registry of models: one file per model, found by path, importable without any framework.

Adding a model is adding one file to `models/<framework>/` (or to a folder of your own, see `add_folder`) that holds

    @model(name="my_model", family="mlp")
    def build(dtype: str) -> Built:
        import jax  # frameworks are imported here, so that listing the models stays fast
        ...
"""

from __future__ import annotations

import ast
import difflib
import fnmatch
import importlib.util
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from opscope.base import regular_file
from opscope.base.places import HOME
from opscope.base.python_text import parsed
from opscope.models import frontends

ROOT = HOME / "models"
FRAMEWORK_FOLDERS = tuple(sorted(p.parent for p in ROOT.glob("*/__init__.py") if p.parent.name in frontends.names()))
"""Folders that are searched in any case; every `*.py` in them that uses `@model` is a model."""
OWN_FOLDERS = frozenset({ROOT, *FRAMEWORK_FOLDERS})
"""Folders whose files are known to be Python, with decorators in the first column."""

SIZES = ("full", "reduced")
TRAINING = "+training"
"""Suffix of a model's name that stands for its training step."""

Build = Callable[[str], Any]


@dataclass(frozen=True)
class Model:
    """One entry of the registry."""

    name: str
    family: str
    framework: str
    size: str
    """`full` or `reduced`; the model's docstring gives the reason."""
    build: Build
    """Takes NumPy's name of the float type (`float32`, `bfloat16`) and returns what the framework's frontend exports:
    for JAX the callable and its arguments."""
    path: Path
    """The file that holds the model; its exports are cached by this file."""
    giant: bool = False
    """Whether its weights are too large for memory: each op then gets random inputs, and `all` leaves the model out."""
    trainable: bool = True
    """Whether `--training` makes sense for it."""
    shardings: Mapping[str, str] = field(default_factory=dict)
    """How `--mesh RxC` splits it: pattern of argument names -> the axis of each dim, `data` (R devices), `model` (C) or
    nothing, as in `data,,model`. What fits no pattern is not split, or as XLA propagates it."""

    def sources(self) -> list[Path]:
        """The files that the model's program depends on (see `sources_of`)."""
        return sources_of(self.path, self.framework)


_models: dict[str, Model] = {}
_searched: set[Path] = set()


def model(
    *,
    name: str,
    family: str,
    framework: str = "jax",
    size: str = "full",
    giant: bool = False,
    trainable: bool = True,
    shardings: Mapping[str, str] | None = None,
) -> Callable[[Build], Build]:
    """Decorator that registers a `build(dtype)` function.

    Raises ValueError if another file already has the name, or if there is no such framework or size.
    """
    frontends.get(framework)
    if size not in SIZES:
        raise ValueError(f"@model {name}: expected size {' or '.join(SIZES)}, got {size!r}")

    def register(build: Build) -> Build:
        path = Path(build.__code__.co_filename).resolve()
        known = _models.get(name)
        if known is not None and known.path != path:
            raise ValueError(f"@model: expected a new name, got {name!r}, which {known.path} already has")
        _models[name] = Model(name, family, framework, size, build, path, giant, trainable, shardings or {})
        return build

    return register


@dataclass(frozen=True)
class Declared:
    """A model of a file, as its `@model` decorator declares it; the file is not imported."""

    name: str
    framework: str = "jax"
    giant: bool = False
    trainable: bool = True


def declared(path: Path) -> list[Declared]:
    """Returns the models in a file, from its `@model(name="...")` decorators; nothing is executed.

    Raises ValueError if the file is not Python.
    """
    try:
        return list(_declared(regular_file.read_bytes(path), path))
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path}: expected Python, got a syntax error: {error}") from None


# `sources_of` calls this for every file of a folder, for each model in it.
@lru_cache(maxsize=1024)
def _declared(text: bytes, path: Path) -> tuple[Declared, ...]:
    # Of our own files only the decorators are parsed: of all of them it takes 100 ms, at the start of every run.
    return tuple(_declared_in(_decorators(text) if path.parent in OWN_FOLDERS else text, path))


ALL = "all"
"""The word for all models but giants, also where a file of that name lies."""

_DECORATED = re.compile(rb"^@(?:\w+\.)*model\(.*?^(?:def|class) ", re.MULTILINE | re.DOTALL)
"""A decorator in the first column, with those below it, up to the function."""


def _decorators(text: bytes) -> bytes:
    """A Python file with the decorated functions alone, and these without arguments and body."""
    return b"\n".join(match[0] + b"build(): ..." for match in _DECORATED.finditer(text))


def _declared_in(text: bytes, path: Path) -> list[Declared]:
    tree = parsed(text, str(path))
    models = []
    for node in tree.body:
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and _function_name(decorator) == "model":
                words = {
                    k.arg: k.value.value for k in decorator.keywords if k.arg and isinstance(k.value, ast.Constant)
                }
                fields: dict[str, Any] = {
                    key: words[key] for key in ("framework", "giant", "trainable") if key in words
                }
                models.append(Declared(str(words.get("name", path.stem)), **fields))
    return models


def _function_name(call: ast.Call) -> str:
    """Returns the last word of a call's function: `model` in `model(...)` and `registry.model(...)`."""
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def sources_of(path: Path, framework: str = "jax") -> list[Path]:
    """Returns the files that a model's program depends on: its own, those that its folder shares, its exporter's.

    A folder's other models are left out, so that editing one model does not export all again.
    """
    folders = (ROOT, path.parent) if path.parent in FRAMEWORK_FOLDERS else (path.parent,)
    shared = [p for folder in folders for p in sorted(folder.glob("*.py")) if p != path and not _is_model(p)]
    return [path, *shared, *frontends.sources(framework)]


def _is_model(path: Path) -> bool:
    """Whether a file holds a model; False for a file that is not Python."""
    try:
        return bool(declared(path))
    except ValueError:
        return False


def add_folder(folder: Path | str) -> list[str]:
    """Registers the models of `folder` (its own `*.py`, not deeper); returns their names, sorted.

    Raises ValueError if there is no such folder, or if a file in it cannot be imported.
    """
    folder = Path(folder).resolve()
    if not folder.is_dir():
        raise ValueError(f"models: expected a folder, got {folder}")
    _search(folder)
    return sorted(m.name for m in _models.values() if m.path.parent == folder)


def _search(folder: Path) -> None:
    """Imports the models of a folder, once."""
    if folder not in _searched:
        for path in sorted(folder.glob("*.py")):
            if declared(path):
                _load(path)
        _searched.add(folder)


def _load(path: Path) -> None:
    """Imports one model file. Files of opscope keep their dotted name; a user's file gets a unique one."""
    is_ours = path.parent in FRAMEWORK_FOLDERS
    name = (
        f"opscope.models.{path.parent.name}.{path.stem}"
        if is_ours
        else f"opscope_model_{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    )
    if name in sys.modules:
        return
    if not is_ours and str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # it may import files beside it, as a script may
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"models: expected a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{path}: expected a model that imports, got {type(error).__name__}: {error}") from error


def add_file(path: Path | str) -> list[Model]:
    """Registers the models of one Python file. Raises ValueError if it holds none or cannot be imported."""
    path = Path(path).resolve()
    if not path.is_file() or not declared(path):
        raise ValueError(f"--model: expected a Python file with a function that has the decorator @model, got {path}")
    _load(path)
    return [m for m in _models.values() if m.path == path]


def add_file_model(path: Path | str, name: str) -> Model:
    """Returns the model `name` of one Python file. Raises ValueError if the file holds no such model."""
    models = {model.name: model for model in add_file(path)}
    if name not in models:
        raise ValueError(f"{path}: expected a model {name!r}, got {', '.join(models)}")
    return models[name]


def shardings_of(name: str, path: str) -> Mapping[str, str]:
    """How `--mesh` splits the model `name` of a file that was imported before; empty for any other."""
    known = _models.get(name)
    return known.shardings if known is not None and known.path == Path(path).resolve() else {}


def names(folders: Iterable[Path | str] = ()) -> list[str]:
    """Returns all registered names, sorted; `folders` are searched besides opscope's own."""
    for folder in FRAMEWORK_FOLDERS:
        _search(folder)
    for folder in folders:
        add_folder(folder)
    return sorted(_models)


def get(name: str, folders: Iterable[Path | str] = ()) -> Model:
    """Returns the model of that name. Raises ValueError with the closest names, or what lists all, if there is none."""
    known = names(folders)
    if name not in _models:
        raise ValueError(_unknown(name, known))
    return _models[name]


def _unknown(word: str, known: Sequence[str]) -> str:
    """Returns the error text for a word that names no model."""
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.4) or ["opscope models, which lists them"]
    if "," in word:
        near = [f"--model once for each: {' '.join(f'--model {name}' for name in word.split(','))}"]
    expected = "the name of a model, a glob, `all` or the path of a model file"
    return f"--model: expected {expected}, got {word!r}; try {', '.join(near)}"


def match(pattern: str, folders: Iterable[Path | str] = ()) -> list[Model]:
    """Returns the models that match `pattern` (a name, a glob, or `all`), sorted; `all` leaves giants out.

    Raises ValueError if none matches.
    """
    models = {name: _models[name] for name in names(folders)}
    return [models[name] for name in _matching(pattern, models)]


def match_declared(pattern: str) -> list[tuple[Path, Declared]]:
    """Returns our own models that match `pattern` as `match` does, without importing a file. Raises ValueError."""
    declared_as = {
        model.name: (path, model)
        for folder in FRAMEWORK_FOLDERS
        for path in sorted(folder.glob("*.py"))
        for model in declared(path)
    }
    return [declared_as[name] for name in _matching(pattern, {name: model for name, (_, model) in declared_as.items()})]


def _matching(pattern: str, models: Mapping[str, Model | Declared]) -> list[str]:
    """The names that match `pattern`, sorted. Raises ValueError if none matches."""
    known = sorted(models)
    if pattern == ALL:
        return [name for name in known if not models[name].giant]
    matches = [name for name in known if fnmatch.fnmatchcase(name, pattern)]
    if not matches:
        raise ValueError(_unknown(pattern, known))
    return matches
