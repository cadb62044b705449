"""The passes, one file or folder each, named after the pass with `_` for `-`; a new file is a new pass.

`load` imports one of them. `compiler/pipelines` puts passes in order.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

OF_XDSL = {"canonicalize": "canonicalize", "cse": "common_subexpression_elimination", "dce": "dead_code_elimination"}
"""xDSL's passes that our pipelines run -> their modules below `xdsl.transforms`."""


def names() -> tuple[str, ...]:
    """Returns the names of all passes, in alphabetical order, without importing them."""
    modules = (module.name.replace("_", "-") for module in iter_modules(__path__))
    return tuple(sorted((*modules, *OF_XDSL)))


def load(name: str) -> type[ModulePass]:
    """Returns the class of the pass `name`. Raises ValueError if there is none."""
    if name not in names():
        raise ValueError(f"no pass {name}")
    place = f"xdsl.transforms.{OF_XDSL[name]}" if name in OF_XDSL else f"{__name__}.{name.replace('-', '_')}"
    module = import_module(place)
    return next(value for value in vars(module).values() if getattr(value, "name", None) == name)
