"""`opscope ops --json`: the table; a list of tt-mlir's ops, or another backend, beside it."""

from __future__ import annotations

from typing import Any

from opscope.compiler.against import comparison, op_list
from opscope.compiler.ops.coverage import Coverage

Table = list[Coverage]
AgainstList = list[op_list.Comparison]
AgainstBackend = comparison.Comparison
PRINTS: Any = Table | AgainstList | AgainstBackend
