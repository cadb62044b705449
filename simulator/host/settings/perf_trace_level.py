"""Levels of performance traces."""

from __future__ import annotations

from opscope.simulator.host.settings.named_value import NamedValue


class PerfTraceLevel(NamedValue):
    """How much a performance trace holds: nothing, cycles of ops, or also bytes and places."""

    NONE = 0
    LIGHT = 1
    VERBOSE = 2
