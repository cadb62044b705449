"""SQL for columns of links and of texts, for both SQLite and PostgreSQL.

A table with links renders HTML, so it would also render HTML in an error message or in a model's name. So every other
text of such a table goes through `text`, which escapes markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

OP_DASHBOARD = "/superset/dashboard/opscope-op/"

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/"
"""Characters that neither HTML nor a URL has to escape."""


def _replaced(expression: str, pairs: Mapping[str, str]) -> str:
    for old, new in pairs.items():
        expression = f"REPLACE({expression}, {_quoted(old)}, {_quoted(new)})"
    return expression


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def escaped(expression: str) -> str:
    """SQL that escapes the text for HTML."""
    return _replaced(expression, {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def _in_address(expression: str) -> str:
    """SQL that escapes the text as part of a URL, without its slashes."""
    return _replaced(
        expression,
        {"%": "%25", "&": "%26", "#": "%23", "?": "%3F", "+": "%2B", " ": "%20", '"': "%22", "<": "%3C", ">": "%3E"},
    )


def _is_plain(column: str, more: str = "") -> str:
    """SQL that says whether the text has characters of `PLAIN` and `more` alone.

    Nearly every text does, and to ask is cheap: some forty replacements in each of 11,000 rows take 0.2 s.
    """
    return f"LTRIM({column}, '{PLAIN}{more}') = ''"


def text(column: str, *, arrows: bool = False) -> str:
    """SQL that escapes the column in a table that renders HTML. Superset treats a value without `<` as text anyway.

    `arrows`: `->` is one sign that stays on its line, since a narrow cell breaks between the two.
    """
    said = _replaced(column, {" ->": "\N{NO-BREAK SPACE}→"}) if arrows else column
    return f"CASE WHEN {column} LIKE '%<%' THEN '<span>' || {escaped(said)} || '</span>' ELSE {said} END"


def op(column: str, _: str) -> str:
    """SQL for a link that opens the op explorer with that op selected."""
    quick = _op_link(_replaced(column, {" ": "%20"}), column)
    whole = _op_link(_in_address(_replaced(column, {"!": "!!", "'": "!'"})), escaped(column))
    return f"CASE WHEN {_is_plain(column, ' ')} THEN {quick} ELSE {whole} END"


def _op_link(value: str, shown: str) -> str:
    chosen = "%27' || " + value + " || '%27"
    query = (
        f"native_filters=(NATIVE_FILTER-op:(extraFormData:(filters:!((col:op,op:IN,val:!({chosen})))),"
        f"filterState:(value:!({chosen})),id:NATIVE_FILTER-op,ownState:()))"
    )
    return f"'<a href=\"{OP_DASHBOARD}?{query}\">' || {shown} || '</a>'"


def artifact(column: str, artifact_url: str) -> str:
    """SQL for a link to the file of a failing op in its run folder; empty if there is none."""
    base = artifact_url.replace("'", "''").replace('"', "%22").replace("<", "%3C").replace(">", "%3E")
    run_id, path = (
        f"CASE WHEN {_is_plain(part)} THEN {part} ELSE {_in_address(part)} END" for part in ("run_id", column)
    )
    place = f"{run_id} || '/' || {path}"
    return f"CASE WHEN {column} <> '' THEN '<a href=\"{base}/' || {place} || '\" target=\"_blank\">log</a>' ELSE '' END"


def command(column: str, _: str) -> str:
    """SQL for a command line whose words stay whole where they fit: browsers break between the dashes of `--arch`."""
    word = '<span style="display:inline-block">'
    return f"'{word}' || {_replaced(escaped(column), {' ': f'</span> {word}'})} || '</span>'"


LINKS: Mapping[str, Callable[[str, str], str]] = {"op": op, "artifact": artifact, "repro": command}
"""Name of a column shown as HTML -> the function that builds its SQL from the column and the URL of run folders."""
