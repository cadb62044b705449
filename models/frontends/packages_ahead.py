"""What the process does of which exporters are forks: it imports a framework once for all its models.

JAX is in the process of which all children are forks. A framework that is as large as PyTorch has a process of its own,
from its second model on: for a single one it would only hold memory.
"""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.models import frontends
from opscope.models.frontends.base import Frontend

if TYPE_CHECKING:
    from opscope.base.children.child import ChildOptions

SHARED = frozenset({"jax"})
"""Packages that the process of all children may have."""

_begun: set[str] = set()
"""Frameworks of which this process has exported a model."""
_lock = threading.Lock()


def fork_options(frontend: Frontend, model: Path) -> ChildOptions:
    """The options of `call` for the exporter of a model: what is imported `ahead`, in which `server`; empty if nothing
    is."""
    packages = list(frontend.forkable_packages)
    if not packages:
        return {}
    if ahead := for_all_children(frontend):
        return {"ahead": ahead}
    with _lock:
        first = frontend.name not in _begun
        _begun.add(frontend.name)
    if first:
        return {}
    for library in frontends.versions(frontend.name, model):
        packages += frontend.forkable_libraries.get(library, ())
    return {"ahead": _call(packages), "server": frontend.name}


def for_all_children(frontend: Frontend) -> tuple[str, ...]:
    """What the process of all children imports ahead for the exporters of a framework; empty if nothing is."""
    packages = list(frontend.forkable_packages)
    return _call(packages) if packages and SHARED.issuperset(packages) else ()


def _call(packages: list[str]) -> tuple[str, ...]:
    return (f"{__name__}:import_packages", *packages)


def import_packages(*packages: str) -> None:
    """Imports packages. Raises what they raise; the exporter then says so."""
    for package in packages:
        importlib.import_module(package)


def forget() -> None:
    """Has the next model of each framework count as the first."""
    _begun.clear()
