"""opscope: a test-and-regression harness for ML compilers.

Every public name, as docs/python.md lists them, can be imported from here. It is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opscope.base.places import HOME, PACKAGE

NAMES = {
    "ArgSpec": "models.arguments",
    "Backend": "harness.backends.base",
    "BackendError": "harness.backends.base",
    "Built": "models.arguments",
    "Declined": "harness.backends.base",
    "Job": "harness.backends.base",
    "OpTest": "harness.record.records",
    "ResultOptions": "harness.record.result_options",
    "Stage": "harness.record.stages",
    "StageCrashError": "harness.backends.base",
    "StageError": "harness.backends.base",
    "Status": "harness.record.stages",
    "Target": "harness.verdict.target",
    "TorchBuilt": "models.frontends.torch",
    "Xla": "harness.backends.xla",
    "Verdict": "harness.judge.verdict",
    "frames": "reports.exports",
    "judge": "harness.judge.judge",
    "model": "models.registry",
    "run_op_by_op": "harness.run.api",
    "split": "harness.run.api",
}
"""Public name -> the module that defines it."""

__all__ = sorted(NAMES)  # pyright: ignore[reportUnsupportedDunderAll]

if HOME != PACKAGE:  # a checkout: modules come from their folders, not through the links here, so that tracebacks,
    __path__.insert(0, str(HOME))  # breakpoints and coverage name the files that git has


def __getattr__(name: str) -> Any:
    """Imports a public name and returns it. Raises AttributeError for any other name."""
    if name == "__version__":
        from opscope.base.plugins import version

        return version("opscope")
    if name not in NAMES:
        raise AttributeError(f"module 'opscope' has no attribute {name!r}")
    module = import_module(f"opscope.{NAMES[name]}")
    return getattr(module, name) if hasattr(module, name) else import_module(f"{module.__name__}.{name}")


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted(["__version__", *NAMES])
