"""What the process does of which exporters are forks: it imports a framework once for all its models."""

from __future__ import annotations

import importlib

from opscope.models.frontends.base import Frontend


def call_for(frontend: Frontend) -> tuple[str, ...]:
    """The call that imports a frontend's `forkable_packages`, as `Child` takes it; empty if it has none."""
    return (f"{__name__}:import_packages", *frontend.forkable_packages) if frontend.forkable_packages else ()


def import_packages(*packages: str) -> None:
    """Imports packages. Raises what they raise; the exporter then says so."""
    for package in packages:
        importlib.import_module(package)
