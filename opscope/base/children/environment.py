"""The environment of every child that runs a framework, a compiler or XLA."""

from __future__ import annotations

import os
from collections.abc import Mapping

SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
}
"""BLAS and XLA compute on one thread, so that digits repeat and children do not fight over the processor."""

XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DIFFUSERS_OFFLINE": "1"}
"""Stops frameworks from sending requests to their hubs."""

QUIET = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONUNBUFFERED": "1"}
"""Turns off the search for accelerators and needless logging; a child's output is not lost when it dies."""


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a child: this process's own, with the changes above and then those of `extra`."""
    flags = os.environ.get("XLA_FLAGS", "")
    if XLA_FLAG not in flags.split():
        flags = f"{flags} {XLA_FLAG}".strip()
    return {**os.environ, **SINGLE_THREADED, **OFFLINE, **QUIET, "XLA_FLAGS": flags, **(extra or {})}
