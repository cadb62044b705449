"""`opscope replay --json`: the record of the op."""

from __future__ import annotations

from opscope.harness.record.records import OpTest

PRINTS = OpTest
