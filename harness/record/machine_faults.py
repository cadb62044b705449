"""Whether a machine, and not what ran on it, may have caused a failing run."""

from __future__ import annotations

import os
from contextlib import suppress

from opscope.base import machine
from opscope.base.children.ending import FROM_OUTSIDE, OF_THE_MACHINE
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Status

LOADED = 2.0
"""Load per processor above which a time-out is not the op's fault."""

SCARCE = 0.05
"""Share of free memory below which a crash is not the op's fault."""


def pressure() -> str:
    """Describes what this machine lacks at the moment. Empty if it lacks nothing or that is unknown."""
    with suppress(OSError, AttributeError):
        load, processors = os.getloadavg()[0], os.cpu_count() or 1  # the load is that of the whole machine
        if load > LOADED * processors:
            return f"load {load:.1f} on {processors} processors"
    if (share := machine.free_memory() / machine.machine_memory()) < SCARCE:
        return f"{share:.0%} of memory free"
    return ""


def fault_of_machine(test: OpTest, lacking: str) -> bool:
    """Whether the machine may have caused a failing run; `lacking` is what it lacked when the run ended."""
    return bool(
        test.crash_kind in FROM_OUTSIDE
        or OF_THE_MACHINE.search(test.error_message or "")
        or (lacking and test.status in (Status.TIMEOUT, Status.CRASHED))
    )
