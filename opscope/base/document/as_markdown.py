"""A document as GitHub's Markdown: for a pull request, a chat message, a job's page, an issue.

Texts from records, such as names of models and errors, are escaped so that they cannot act as markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from opscope.base.document.groups import short
from opscope.base.document.nodes import NAMES, Cause, Column, Listed, Op, Outcome, Table, Words
from opscope.base.visible_text import cut, one_line, visible

LONGEST = 160
"""Characters of a text in a cell or a list."""
_ACTS = re.compile(r"@|:(?=//|[\w+-]+:)|[#!$](?=\d)|[%~](?=[\w\"])|&amp;(?=\d)|\bwww(?=\.)|\bGH-(?=\d)", re.IGNORECASE)
"""What a zero-width space behind it keeps from acting: `@name`, addresses, `:emoji:`, references such as `#12`. It is
spelled out, so that what a terminal shows can be posted."""


def rendered(*nodes: Words | Listed | Table) -> str:
    """The nodes below each other, without those that are empty."""
    return "\n\n".join(filter(None, map(_rendered, nodes)))


def _rendered(node: Words | Listed | Table) -> str:
    match node:
        case Words():
            text = f"**{escaped(node.text)}**" if node.style == "strong" and node.text else escaped(node.text)
            return f"[{text}]({node.link})" if re.match(r"https?://", node.link) else text
        case Listed():
            lines = [f"- {escaped(shortened(' '.join(filter(None, row))))}" for row in node.rows]
            lines += [f"- and {node.left_out} more"] * bool(node.rows and node.left_out)
            return "\n".join([f"**{node.heading}**", *lines]) if node.rows or node.left_out else ""
        case Table():
            return _table(node.filled)


def _table(node: Table) -> str:
    if not node.rows:
        return ""
    cells = ([_cell(cell, column.kind) for cell, column in zip(row, node.columns, strict=True)] for row in node.rows)
    heads = [column.head for column in node.columns]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *cells))
    more = f"and {node.left_out} more{f'; see {code(node.see)}' if node.see else ''}" if node.left_out else ""
    return "\n\n".join(filter(None, (node.title and f"**{escaped(node.title)}**", lines, more)))


def _cell(value: Any, kind: str) -> str:
    match kind, value:
        case "names", _:
            return ", ".join(map(code, value[:NAMES])) + " …" * (len(value) > NAMES)
        case "code", _:
            return code(value)
        case _, Words():
            return _rendered(value)
        case _, Op():
            more = escaped(value.note)
            return " ".join(filter(None, (code(value.op_name), code(value.op_id), more)))
        case _, Outcome():
            return escaped(str(value))
        case _, list():
            return "<br>".join(_cell(each, "") for each in value if each)
    return escaped(shortened(str(value)))


def of_causes(causes: Sequence[tuple[Cause, str]], most: int, see: str) -> Table:
    """A row for each cause, with its first op and how many others it has; beside each where it is, if there are several
    such places."""
    columns = [Column("cause", "code"), Column("op"), Column("types", "code"), Column("on", fillable=True)]
    columns += [Column("models"), Column("at"), Column("error message", "lines"), Column("owner", fillable=True)]
    columns += [Column("command", "code")]
    left = sum(cause.count for cause, _ in causes[most:])
    return Table(columns, [_row(*cause) for cause in causes[:most]], left_out=left, see=see)


def _row(cause: Cause, on: str) -> list[Any]:
    op, told = cause.ops[0], cause.brief()
    models = [*told["models"], *([f"and {told['models_left_out']} more"] if "models_left_out" in told else [])]
    names = [name for name in dict.fromkeys(each.op_name for each in cause.ops) if name != op.op_name]
    others = f"and {cause.count - 1} more" if cause.count > 1 else ""
    others += f", also {', '.join(names[:NAMES])}{' …' * (len(names) > NAMES)}" if names else ""
    return [
        short(cause.cause),
        op._replace(note=others),
        op.types,
        on,
        ", ".join(models),
        cause.stage,
        [told.get("error") or cause.what, cause.note and Words(f"note: {cause.note}")],
        cause.owner,
        op.repro,
    ]


# --- text


def escaped(words: str) -> str:
    """A foreign text as markdown that shows it unchanged: no markup, mention, new line or new column."""
    line = shown_line(words)
    line = re.sub(r"([\\`*\[\]#|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", line)
    line = re.sub(r"^(\d*)([-+/](?!\d)|[.)](?!\S))", r"\1\\\2", line)  # a list, or a command of GitLab's
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ACTS.sub("\\g<0>&#8203;", line)


def code(words: str) -> str:
    """A foreign text as code; it cannot end the code or the column."""
    line = shown_line(words)
    if not line:
        return ""
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    space = " " if "`" in line else ""
    return f"{fence}{space}{line.replace('|', chr(92) + '|')}{space}{fence}"


def fenced(text: str, language: str) -> str:
    """A foreign text of several lines as code; it cannot end the code."""
    fence = "`" * max(3, max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    return f"{fence}{language}\n{visible(text).rstrip()}\n{fence}"


def shown_line(words: str) -> str:
    """One line, with escapes for characters that act."""
    return one_line(" ".join(words.split()))


def shortened(words: str) -> str:
    """An error, shortened to fit into a table."""
    return cut(shown_line(words), LONGEST)
