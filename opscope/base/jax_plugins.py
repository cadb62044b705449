"""Has JAX load no plugin in a child that computes on the processor: `JAX_PLATFORMS=cpu` alone does not see to that.

JAX imports and initialises every plugin that is installed when it first looks for a device, and loads what
`PJRT_NAMES_AND_LIBRARY_PATHS` names, whatever platform it will use. One of them unpacks 400 MB and starts threads when
it is loaded. A child whose `JAX_PLATFORMS` names another platform has its plugins.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_MODULE = "jax._src.xla_bridge"
_LOADING = ("discover_pjrt_plugins", "register_pjrt_plugin_factories_from_env")
"""Its functions that load plugins (jax 0.4.30 to 0.12). One that is not there is not needed."""
_OWN = frozenset({"", "cpu"})
"""Platforms that come with jaxlib."""


def keep_out() -> None:
    """Has JAX, once it is imported in this process, ask `wanted` before it loads plugins."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def wanted() -> bool:
    """Whether this process is to compute on a platform that a plugin has."""
    return not _OWN.issuperset(name.strip() for name in os.environ.get("JAX_PLATFORMS", "cpu").split(","))


class _Finder:
    """Finds JAX's module as Python does, and changes it when it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's spec; None for any other."""
        if fullname != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _guarding(spec.loader.exec_module)
        return spec


def _guarding(execute: Callable[[ModuleType], None]) -> Any:
    def exec_module(module: ModuleType) -> None:
        execute(module)
        for name in _LOADING:
            if callable(load := getattr(module, name, None)):
                setattr(module, name, _if_wanted(load))

    return exec_module


def _if_wanted(load: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: load(*args, **named) if wanted() else None
