"""Columns of links and of texts, as SQL that SQLite and PostgreSQL both take.

A table with links renders HTML, and then it would render whatever HTML an error or the name of a model holds. So every
other text of such a table goes through `text`, which shows markup as the text that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

OP_DASHBOARD = "/superset/dashboard/opscope-op/"


def _replaced(expression: str, pairs: Mapping[str, str]) -> str:
    for old, new in pairs.items():
        expression = f"REPLACE({expression}, {_quoted(old)}, {_quoted(new)})"
    return expression


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def escaped(expression: str) -> str:
    """SQL: the text as HTML shows it, whatever is in it."""
    return _replaced(expression, {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def _in_address(expression: str) -> str:
    """SQL: the text as a part of an address, slashes kept."""
    return _replaced(expression, {"%": "%25", "&": "%26", "#": "%23", "?": "%3F", "+": "%2B", " ": "%20", '"': "%22",
                                  "<": "%3C", ">": "%3E"})  # fmt: skip


def text(column: str) -> str:
    """SQL: the column as a table that renders HTML shows it as text. Without `<` Superset takes it for text anyway."""
    return f"CASE WHEN {column} LIKE '%<%' THEN '<span>' || {escaped(column)} || '</span>' ELSE {column} END"


def op(column: str, _: str) -> str:
    """SQL: a link that opens the op explorer with that op chosen."""
    value = _in_address(_replaced(column, {"!": "!!", "'": "!'"}))
    chosen = "%27' || " + value + " || '%27"
    query = (
        f"native_filters=(NATIVE_FILTER-op:(extraFormData:(filters:!((col:op,op:IN,val:!({chosen})))),"
        f"filterState:(value:!({chosen})),id:NATIVE_FILTER-op,ownState:()))"
    )
    return f"'<a href=\"{OP_DASHBOARD}?{query}\">' || {escaped(column)} || '</a>'"


def artifact(column: str, artifact_url: str) -> str:
    """SQL: a link to what a failing op left in its run folder, else nothing."""
    base = artifact_url.replace("'", "''").replace('"', "%22").replace("<", "%3C").replace(">", "%3E")
    place = f"{_in_address('run_id')} || '/' || {_in_address(column)}"
    return f"CASE WHEN {column} <> '' THEN '<a href=\"{base}/' || {place} || '\" target=\"_blank\">log</a>' ELSE '' END"


LINKS: Mapping[str, Callable[[str, str], str]] = {"op": op, "artifact": artifact}
"""Name of a column that a link is made of -> what makes it; the second argument is where run folders are."""
