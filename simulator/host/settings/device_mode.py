"""Device modes."""

from __future__ import annotations

from opscope.simulator.host.settings.named_value import NamedValue


class DeviceMode(NamedValue):
    """Whether a device compiles, runs, or does both."""

    CompileAndRun = 0
    CompileOnly = 1
    RunOnly = 2
