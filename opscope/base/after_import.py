"""Changes a module of somebody else's as soon as it is imported, and imports nothing before that."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType], None]


def after_import(name: str, change: Change) -> None:
    """Has `change` called with a module once Python has executed it: now, if that is done already."""
    if name in sys.modules:
        change(sys.modules[name])
    elif not any(isinstance(finder, _Finder) and finder.module == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, change))


class _Finder:
    """Finds one module as Python does, and has it changed when it has been executed."""

    def __init__(self, module: str, change: Change) -> None:
        self.module, self._change = module, change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's spec; None for any other."""
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._changing(spec.loader.exec_module)
        return spec

    def _changing(self, execute: Change) -> Any:
        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._change(module)

        return exec_module
