"""`opscope diff-tensors --json`."""

from __future__ import annotations

from opscope.harness.triage.compared import Compared

PRINTS = list[Compared]
