"""Modules of pybuda as objects: their names are looked up in the tables when a program asks for them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from opscope.simulator.host.names import HOST, MODULES, PARTS

DOOR = "opscope.pybuda"
SPECIAL = {
    **{name: f"{HOST}.{place}" for name, place in PARTS.items()},
    "op.nn": f"{HOST}.op",
    "op.tm": f"{HOST}.op",
    "op.loss": f"{HOST}.op.loss",
}
"""Module of pybuda -> the module here that it is."""


class AliasModule(ModuleType):
    """A module whose names are its own in `MODULES`, its submodules, and those of pybuda or of another module."""

    def __init__(self, name: str) -> None:
        super().__init__(f"pybuda.{name}" if name else "pybuda", import_module(SPECIAL.get(name, DOOR)).__doc__)
        self.__path__ = []
        self._short = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        inner = f"{self._short}.{name}" if self._short else name
        if inner in MODULES or inner in SPECIAL:
            return alias_module(inner)
        place = MODULES.get(self._short, {}).get(name)
        if place is None:
            return getattr(import_module(SPECIAL.get(self._short, DOOR)), name)
        module, _, inside = place.partition(":")
        holder = import_module(f"{HOST}.{module}")
        # A class stands for its own name here, an enumeration for its members.
        owner = getattr(holder, inside) if inside else holder
        return getattr(owner, name, owner) if inside else getattr(owner, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(import_module(SPECIAL.get(self._short, DOOR))), *MODULES.get(self._short, {})})


@cache
def alias_module(name: str) -> AliasModule:
    """Returns a module of pybuda by its name behind `pybuda.`; `` is pybuda itself."""
    return AliasModule(name)
