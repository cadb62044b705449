"""Prints a document in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from opscope.base.document.groups import short
from opscope.base.document.nodes import NAMES, Cause, Causes, Drawn, Listed, Node, Table, Words
from opscope.base.page import Page
from opscope.base.statuses import TERMINAL
from opscope.base.terminal import plain
from opscope.base.visible_text import cut, one_line

MOST = 30
"""Largest number of causes below a heading; `--json` and the report have them all."""
FEW = 3
"""So many ops of a cause are listed, unless it is the only one that was asked for."""
LONGEST = 90
"""Characters of a long text in a table."""
STYLES = {**TERMINAL, "strong": "bold", "note": "dim", "hint": "cyan", "apart": "bold magenta"}
INDENT = 2


def show(nodes: Iterable[Node], page: Page, most: int = MOST, few: int = FEW, *, brief: bool = False) -> None:
    """Prints the nodes below each other; `brief`: a list in one line, of a cause three lines."""
    for node in nodes:
        match node:
            case Words():
                prints = page.line if node.whole else page.prose
                text, style = "  ".join(filter(None, (node.text, node.link))), STYLES.get(node.style, "")
                prints(text, style, indent=INDENT * node.level)
            case Drawn():
                page.line()
                page.line(node.title, "bold")
                for pieces in node.lines:
                    page.pieces(pieces, indent=INDENT)
            case Listed():
                _listed(node, page, brief=brief)
            case Table():
                _table(node, page)
            case Causes():
                if node.title:
                    page.line()
                    page.line(node.heading, STYLES.get(node.tone, "bold"))
                shown, left = node.causes[:most], node.left_out + sum(cause.count for cause in node.causes[most:])
                if brief:
                    _in_brief(shown, page)
                else:
                    show_causes(shown, page, few)
                    left += sum(cause.count - len(cause.ops) for cause in shown)
                if left:
                    more = f"{len(node.causes) - most} more causes, of {left} ops" if brief else f"{left} more"
                    page.line(f"and {more}; see {node.see}", indent=INDENT)


def _listed(node: Listed, page: Page, *, brief: bool) -> None:
    style = STYLES.get(node.tone, "bold")
    if brief and node.title:
        figure, text = node.rows[0]
        page.line(cut(one_line(f"{node.heading}, such as {figure.strip()} {text}"), page.console.width), style)
        return
    if node.title:
        page.line()
        page.line(node.heading, style)
    figures, margin = [one_line(figure) for figure, _ in node.rows], " " * (INDENT * (node.level + 1))
    width = max(map(len, figures), default=0)
    page.hanging([(f"{margin}{figure:>{width}}  ", "") for figure in figures], [text for _, text in node.rows])
    if node.left_out:
        page.line(f"and {node.left_out} more", indent=len(margin))


def _table(table: Table, page: Page) -> None:
    if table.title:
        page.line()
        page.line(table.title, "bold")
    table = table.filled
    columns = [(column.head, "right" if column.kind == "right" else "") for column in table.columns]
    rows = [[_cell(cell, column.kind) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    page.table(columns, rows, spare=[column.head for column in table.columns if column.spare])
    if table.left_out:
        page.line(f"and {table.left_out} more; see {table.see}")


def _cell(value: Any, kind: str) -> Any:
    match kind:
        case "long":
            return cut(" ".join(value.split()), LONGEST)
        case "names":
            return ", ".join(value[:NAMES]) + " …" * (len(value) > NAMES)
        case "op":
            return value.title
        case "lines" | "outcomes":
            return "; ".join(map(str, value))
        case "bar":
            return "█" * round(20 * value) if not plain() else ""
        case _:
            return value


def _in_brief(causes: Iterable[Cause], page: Page) -> None:
    """Prints three lines of each cause, cut at the page's width: itself, its first op, the command."""
    for cause in causes:
        op, more = cause.ops[0], f" and {cause.count - 1} more" * (cause.count > 1)
        page.line(cut(one_line(cause.heading), page.console.width - 2), indent=2)
        page.line(cut(one_line(op.title + more), page.console.width - 4), indent=4)
        page.line(op.repro, "dim", indent=4)


def show_causes(causes: Iterable[Cause], page: Page, few: int = sys.maxsize) -> None:
    """Prints each cause with its first `few` ops."""
    for cause in causes:
        indent = 4 if cause.what else 2
        if cause.what:
            page.prose(cause.heading, indent=2)
        if cause.note:
            page.prose(f"note: {cause.note}", "bold", indent=4)
        if len(cause.ops) > few:
            more = f" and {len(cause.models) - NAMES} more" if len(cause.models) > NAMES else ""
            page.prose(f"{cause.names} in {', '.join(cause.models[:NAMES]) or 'no model'}{more}", indent=4)
        for op in cause.ops[:few]:
            page.prose(op.title, indent=indent)
            if said := cause.said(op, whole=few > FEW):
                page.prose(said, "dim", indent=indent + 2)
            for command in filter(None, (op.repro, op.script)):
                page.line(command, "dim", indent=indent + 2)
        if len(cause.ops) > few:
            see = f": --cause {short(cause.cause)}" if cause.cause else "; see --json"
            page.line(f"and {len(cause.ops) - few} more{see}", "dim", indent=4)
