"""`import opscope.frames`: the module of that name in `opscope.reports.exports`, which docs/results.md explains."""

from __future__ import annotations

import sys

from opscope.reports.exports import frames
from opscope.reports.exports.frames import __getattr__, diff, op_tests, view

__all__ = ["__getattr__", "diff", "op_tests", "view"]

sys.modules[__name__] = frames
