"""Writes docs/measurements.md from the rows of docs/measurements.yaml: `make measurements`.

Run as `python ci/measurements_page.py` to print the page. The page leaves out figures that later ones supersede.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).resolve().parent.parent / "docs" / "measurements.yaml"
PAGE = DATA.with_suffix(".md")

WIDTH = 126
"""Columns of a paragraph."""

INTRODUCTION = """\
Written by `make measurements` from [measurements.yaml](measurements.yaml), which has a row for each figure, also for
those that later ones supersede. Figures were taken on {machine}, unless stated otherwise; "load" is that of other work
on the machine. `make measure` takes most of them again (`make measure ARGS="scale overhead"`: only these groups)."""


def page(data: dict[str, Any]) -> str:
    """The page of all sections."""
    parts = ["# Measurements", textwrap.fill(INTRODUCTION.format(**data).replace("\n", " "), WIDTH)]
    for section in data["sections"]:
        parts.append(f"## {section['section']}")
        if "about" in section:
            parts.append(_paragraph(section["about"]))
        for table in section["tables"]:
            parts += _table(table)
    return "\n\n".join(parts) + "\n"


def _table(table: dict[str, Any]) -> Iterator[str]:
    """A table's title, origin and rows as paragraphs; nothing if all of it is superseded."""
    rows = [row for row in table["rows"] if not row.get("superseded")]
    if table.get("superseded") or not rows:
        return
    machine, about = (f"; {table['machine']}" if "machine" in table else "", table.get("about", ""))
    commands = ", ".join(f"`{command}`" for command in table.get("command", "").split("; ") if command)
    origin = f"**{table['title']}** ({table['date']}{machine}{': ' if commands else ''}{commands})"
    yield _paragraph(f"{origin}. {about}".rstrip())
    # The limit and what others reach stand last, wherever the first row has them.
    last = [name for name in ("date", "limit", "peer") if any(name in row for row in rows)]
    columns = [*dict.fromkeys(name for row in rows for name in row if name not in last), *last]
    lines = [columns, ["---"] * len(columns), *([str(row.get(name, "")) for name in columns] for row in rows)]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if "note" in table:
        yield _paragraph(table["note"])


def _paragraph(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    print(page(yaml.safe_load(DATA.read_text(encoding="utf-8"))), end="")
