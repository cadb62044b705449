"""Makes `import pybuda` and `import pybuda.op` mean this package, for a process that runs a program of TT-Buda's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from opscope.simulator.host.names import MODULES
from opscope.simulator.host.submodules.alias_modules import SPECIAL, alias_module

ELSEWHERE = {"pybuda": "", **{f"pybuda.{name}": name for name in (*MODULES, *SPECIAL)}}
"""Module of TT-Buda -> its name behind `pybuda.`."""


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname in ELSEWHERE else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return alias_module(ELSEWHERE[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


def install() -> None:
    """Installs the names, unless they are there."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
