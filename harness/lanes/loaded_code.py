"""Notices when an op replaces or removes code that the next op, or its own verdict, rests on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter, is_, itemgetter
from types import FunctionType, ModuleType
from typing import Any

VERDICT = (
    "builtins",
    "math",
    "numpy",
    "numpy._core._methods",
    "numpy._core.fromnumeric",
    "opscope.harness.formulas",
    "opscope.harness.lanes",
    "opscope.harness.prepare",
    "opscope.harness.record",
    "opscope.harness.verdict",
    "opscope.models.seeding",
)
"""The modules, and folders of modules of ours, that turn results into a verdict and a record."""
OTHERS = (
    "contextlib",
    "functools",
    "gc",
    "io",
    "json",
    "json.decoder",
    "json.encoder",
    "opscope.base",
    "opscope.harness",
    "os",
    "pathlib",
    "posix",
    "random",
    "shutil",
    "signal",
    "socket",
    "struct",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "traceback",
    "warnings",
)
"""The modules that a worker and its backend use between ops."""
_DEEP = tuple(f"opscope.harness.{name}" for name in ("formulas", "lanes", "prepare", "record", "verdict"))
"""Folders whose functions are also looked into, and whose classes are checked method by method."""


class LoadedCode:
    """The loaded modules, and the functions, classes and tables of those that the harness needs.

    What is added is no change: modules and functions are loaded lazily. It compares objects, which takes some
    microseconds per hundred names; what is done to the memory of an object behind Python's back is not seen.
    """

    def __init__(self) -> None:
        self._modules = _Namespace("sys.modules", sys.modules, {name: sys.modules[name] for name in list(sys.modules)})
        self._verdict = [*_namespaces(VERDICT)]
        known = {namespace.name for namespace in self._verdict}
        self._others = [namespace for namespace in _namespaces(OTHERS) if namespace.name not in known]
        functions = [*_functions(_DEEP)]
        self._names = [f"{function.__module__}.{function.__qualname__}" for function in functions]
        self._functions = functions
        self._bodies = [_BODY(function) for function in functions]
        self._tables = [*_tables(_DEEP)]

    def verdict_changes(self) -> list[str]:
        """What was replaced or removed of the code that verdicts rest on: names with their module."""
        names = [name for namespace in self._verdict for name in namespace.changes()]
        if [*map(_BODY, self._functions)] != self._bodies:
            names += [
                name
                for name, function, body in zip(self._names, self._functions, self._bodies, strict=True)
                if _BODY(function) != body
            ]
        for name, table, before in self._tables:
            if not _equal(table, before):
                names.append(name)
        return names

    def other_changes(self) -> list[str]:
        """What was replaced or removed of everything else that is loaded."""
        return [name for namespace in (self._modules, *self._others) for name in namespace.changes()]


_BODY: Callable[[Any], tuple[Any, ...]] = attrgetter("__code__", "__defaults__", "__kwdefaults__")


class _Namespace:
    """Some names of a module or class, and their values."""

    def __init__(self, name: str, now: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
        self.name, self._now = name, now
        self._names, self._values = (*kept,), (*kept.values(),)
        self._get = itemgetter(*self._names) if len(self._names) > 1 else lambda now: (now[self._names[0]],)

    def changes(self) -> Iterator[str]:
        """The names that have another value or none."""
        if not self._names:
            return
        try:
            values = self._get(self._now)
        except KeyError:
            values = None
        # Not `==` of the values: that of an array is an array, and that of a class may be patched.
        if values is not None and all(map(is_, values, self._values)):
            return
        for name, value in zip(self._names, self._values, strict=True):
            if self._now.get(name, _MISSING) is not value:
                yield f"{self.name}.{name}" + ("" if name in self._now else " (removed)")


_MISSING = object()


def _namespaces(names: tuple[str, ...]) -> Iterator[_Namespace]:
    """What the named modules hold: functions, classes and modules; of `_DEEP` also constants and methods."""
    for name, module in _loaded(names):
        deep = name.startswith(_DEEP)
        values = {
            key: value
            for key, value in vars(module).copy().items()
            if callable(value) or isinstance(value, ModuleType) or (deep and key.isupper())
        }
        yield _Namespace(name, vars(module), values)
        if not deep:
            continue
        for key, value in values.items():
            if isinstance(value, type) and value.__module__ == name:
                methods = {k: v for k, v in vars(value).copy().items() if callable(v) or hasattr(v, "__get__")}
                yield _Namespace(f"{name}.{key}", vars(value), methods)


def _functions(names: tuple[str, ...]) -> Iterator[FunctionType]:
    """The functions that the named modules define."""
    for name, module in _loaded(names):
        for value in [*vars(module).values()]:
            if isinstance(value, FunctionType) and value.__module__ == name:
                yield value


def _tables(names: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    """The constant tables that the named modules define: name, table and a copy."""
    for name, module in _loaded(names):
        for key, value in vars(module).items():
            if isinstance(value, dict | list | set) and key.isupper():
                yield f"{name}.{key}", value, value.copy()


def _loaded(names: tuple[str, ...]) -> list[tuple[str, ModuleType]]:
    """The loaded modules of these names, and those in folders of ours of these names."""
    folders = tuple(f"{name}." for name in names if name.startswith("opscope."))
    return [
        (name, module)
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and (name in names or name.startswith(folders))
    ]


def _equal(table: Any, before: Any) -> bool:
    try:
        return bool(table == before)
    except Exception:  # noqa: BLE001  an entry that cannot be compared is another one
        return False
