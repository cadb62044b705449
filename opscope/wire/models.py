"""`opscope models --json`."""

from __future__ import annotations

from opscope.harness.prepare.zoo import Listed

PRINTS = list[Listed]
