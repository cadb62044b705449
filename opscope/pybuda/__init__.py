"""TT-Buda's Python API, for programs that say `import pybuda`: `python -m opscope.pybuda PROGRAM.py` runs one.

Every name is defined in `opscope.simulator.host`, one file per class, and is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opscope.simulator.host.errors import NoMeaningHere, NotThereYet
from opscope.simulator.host.names import HOST, MODULES, NAMES, NO_MEANING, NOT_YET, PARTS

__all__ = sorted({*NAMES, *PARTS})  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Imports a name and returns it. Raises NoMeaningHere or NotThereYet with the reason, else AttributeError."""
    if name in PARTS:
        return import_module(f"{HOST}.{PARTS[name]}")
    if name in NAMES:
        return getattr(import_module(f"{HOST}.{NAMES[name][0]}"), name)
    if name in MODULES:
        from opscope.simulator.host.submodules.alias_modules import alias_module

        return alias_module(name)
    if name in NO_MEANING:
        raise NoMeaningHere(
            f"pybuda.{name}: expected a name that a simulated card has, got this one: {NO_MEANING[name]}"
        )
    if name in NOT_YET:
        raise NotThereYet(f"pybuda.{name}: expected a name that is there, got this one: {NOT_YET[name]}")
    raise AttributeError(f"module 'pybuda' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, imported or not."""
    return sorted({*globals(), *NAMES, *PARTS, *(name for name in MODULES if "." not in name)})
