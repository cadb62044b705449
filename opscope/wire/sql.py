"""`opscope sql --json`: rows have the columns of the query; without a query, the stored questions."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from opscope.reports.database.ask import Question

Rows = list[dict[str, JsonValue]]
Questions = list[Question]
PRINTS: Any = Questions | Rows
