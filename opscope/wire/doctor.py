"""`opscope doctor --json`."""

from __future__ import annotations

from opscope.harness.cli.doctor import Finding
from opscope.wire.answer import Answer


class Doctor(Answer):
    """What works on this machine."""

    in_order: bool
    """Whether a run with default options can work."""
    findings: tuple[Finding, ...]


PRINTS = Doctor
