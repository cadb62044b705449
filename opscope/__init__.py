"""opscope: a test-and-regression harness for ML compilers.

The public door: whatever the documentation has users import is here by its name, and loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opscope.base import old_names
from opscope.base.places import HOME

NAMES = {
    "ArgSpec": "models.arguments",
    "Backend": "harness.backends.base",
    "ResultOptions": "harness.record.result_options",
    "Built": "models.arguments",
    "Job": "harness.backends.base",
    "Stage": "harness.record.stages",
    "StageError": "harness.backends.base",
    "Status": "harness.record.stages",
    "Target": "harness.verdict.target",
    "frames": "reports.exports",
    "load_run": "harness.record.store",
    "model": "models.registry",
    "run_op_by_op": "harness.run.api",
    "split": "harness.run.api",
}
"""Public name -> the module that defines it."""

__all__ = sorted(NAMES)

if str(HOME) not in __path__:  # the rooms of a checkout lie beside this folder
    __path__.append(str(HOME))

old_names.install()


def __getattr__(name: str) -> Any:
    """A public name, imported now. Raises AttributeError for any other."""
    if name not in NAMES:
        raise AttributeError(f"module 'opscope' has no attribute {name!r}")
    module = import_module(f"opscope.{NAMES[name]}")
    return getattr(module, name) if hasattr(module, name) else import_module(f"{module.__name__}.{name}")


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted({*globals(), *NAMES})
