"""Loss modules. They come with training."""

from __future__ import annotations

from typing import Any

from opscope.simulator.host.errors import NotThereYet

NAMES = ("CrossEntropyLoss", "L1Loss")


def __getattr__(name: str) -> Any:
    """Raises NotThereYet for TT-Buda's loss modules, AttributeError for anything else."""
    if name in NAMES:
        raise NotThereYet(f"pybuda.op.loss.{name}: expected inference, got training, which is not there yet")
    raise AttributeError(f"module 'pybuda.op.loss' has no attribute {name!r}")
