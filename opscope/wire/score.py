"""`opscope score --json`."""

from __future__ import annotations

from opscope.harness.suites.faults import Score

PRINTS = list[Score]
