"""`opscope backend check --json`."""

from __future__ import annotations

from opscope.harness.cli.backend_suite import Check

PRINTS = list[Check]
