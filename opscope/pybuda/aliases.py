"""Makes `import pybuda` and `import pybuda.op` mean this package, for a process that runs a program of TT-Buda's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from opscope.simulator.host.names import HOST, PARTS

OWN = "opscope.pybuda"
ELSEWHERE = {
    "pybuda": OWN,
    "pybuda._C": OWN,
    "pybuda._C.backend_api": OWN,
    "pybuda.config": OWN,
    "pybuda.module": OWN,
    "pybuda.parameter": OWN,
    "pybuda.tensor": OWN,
    "pybuda.tti": OWN,
    "pybuda.ttdevice": OWN,
    "pybuda.cpudevice": OWN,
    "pybuda.verify": OWN,
    "pybuda.verify.config": OWN,
    "pybuda.schedulers": OWN,
    **{f"pybuda.{name}": f"{HOST}.{place}" for name, place in PARTS.items()},
    "pybuda.op.nn": f"{HOST}.op",
    "pybuda.op.loss": f"{HOST}.op.loss",
}
"""Module of TT-Buda -> where its names are."""


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname in ELSEWHERE else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name, ELSEWHERE[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


class _Alias(ModuleType):
    """A module whose names are another's."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name, importlib.import_module(place).__doc__)
        self.__path__ = []
        self._place = place

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self._place), name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self._place))


def install() -> None:
    """Installs the names, unless they are there."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
