"""Has JAX load no plugin in a child that computes on the processor: `JAX_PLATFORMS=cpu` alone does not see to that.

JAX imports and initialises every plugin that is installed when it first looks for a device, and loads what
`PJRT_NAMES_AND_LIBRARY_PATHS` names, whatever platform it will use. One of them unpacks 400 MB and starts threads when
it is loaded. A child whose `JAX_PLATFORMS` names another platform has its plugins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from opscope.base.after_import import after_import

_MODULE = "jax._src.xla_bridge"
_LOADING = ("discover_pjrt_plugins", "register_pjrt_plugin_factories_from_env")
"""Its functions that load plugins (jax 0.4.30 to 0.12). One that is not there is not needed."""
_OWN = frozenset({"", "cpu"})
"""Platforms that come with jaxlib."""


def keep_out() -> None:
    """Has JAX, once it is imported in this process, ask `wanted` before it loads plugins."""
    after_import(_MODULE, _guard)


def wanted() -> bool:
    """Whether this process is to compute on a platform that a plugin has."""
    return not _OWN.issuperset(name.strip() for name in os.environ.get("JAX_PLATFORMS", "cpu").split(","))


def _guard(module: ModuleType) -> None:
    for name in _LOADING:
        if callable(load := getattr(module, name, None)):
            setattr(module, name, _if_wanted(load))


def _if_wanted(load: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: load(*args, **named) if wanted() else None
