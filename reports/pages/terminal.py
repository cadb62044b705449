"""Prints a document (compare/document.py) in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from opscope.base.page import Page
from opscope.base.statuses import TERMINAL
from opscope.base.terminal import plain
from opscope.harness.record.causes import short
from opscope.harness.record.signature import shorten
from opscope.reports.compare.document import NAMES, Cause, Causes, Node, Table, Words

MOST = 30
"""Largest number of causes below a heading; `--json` and the report have them all."""
FEW = 3
"""So many ops of a cause are listed, unless it is the only one that was asked for."""
LONGEST = 90
"""Characters of a long text in a table."""
STYLES = {**TERMINAL, "strong": "bold"}


def show(nodes: Iterable[Node], page: Page, most: int = MOST, few: int = FEW) -> None:
    """Prints the nodes below each other."""
    for node in nodes:
        match node:
            case Words():
                page.prose("  ".join(filter(None, (node.text, node.link))), STYLES.get(node.style, ""))
            case Table():
                _table(node, page)
            case Causes():
                page.line()
                page.line(node.heading, STYLES.get(node.tone, "bold"))
                show_causes(node.causes[:most], page, few)
                if left := sum(cause.count for cause in node.causes[most:]):
                    page.line(f"and {left} more; see --limit, --json", indent=2)


def _table(table: Table, page: Page) -> None:
    if table.title:
        page.line()
        page.line(table.title, "bold")
    table = table.filled
    columns = [(column.head, "right" if column.kind == "right" else "") for column in table.columns]
    rows = [[_cell(cell, column.kind) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    page.table(columns, rows, spare=[column.head for column in table.columns if column.kind == "spare"])
    if table.left_out:
        page.line(f"and {table.left_out} more; see {table.see}")


def _cell(value: Any, kind: str) -> Any:
    match kind:
        case "long":
            return shorten(value, LONGEST)
        case "names":
            return ", ".join(value[:NAMES]) + " …" * (len(value) > NAMES)
        case "bar":
            return "█" * round(20 * value) if not plain() else ""
        case _:
            return value


def show_causes(causes: Iterable[Cause], page: Page, few: int = sys.maxsize) -> None:
    """Prints each cause with its first `few` ops."""
    for cause in causes:
        indent = 4 if cause.what else 2
        if cause.what:
            page.prose(cause.heading, indent=2)
        if cause.note:
            page.prose(f"note: {cause.note}", "bold", indent=4)
        if len(cause.ops) > few:
            page.prose(f"{cause.names} in {', '.join(cause.models) or 'no model'}", indent=4)
        for op in cause.ops[:few]:
            page.prose(f"{op.op_name} [{op.op_id}] {op.types}", indent=indent)
            page.prose(cause.said(op, whole=few > FEW), "dim", indent=indent + 2)
            if op.repro:
                page.line(op.repro, "dim", indent=indent + 2)
        if len(cause.ops) > few:
            page.line(f"and {len(cause.ops) - few} more: --cause {short(cause.cause)}", "dim", indent=4)
