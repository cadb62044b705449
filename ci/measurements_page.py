"""Writes docs/measurements.md, a line for each figure that is held to a limit: `make measurements`.

docs/measurements.yaml has every figure whole. `python -m ci.measurements_page` prints the page, and
`python -m ci.measurements_page WORD...` all that the file says about the figures that have these words.
"""

from __future__ import annotations

import re
import sys
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
The newest figure of everything with a limit, shortened at "…". [measurements.yaml](measurements.yaml) has all in full,
older ones and those without a limit too, with command, machine, remarks and what others reach: `python -m
ci.measurements_page resnet50 unchanged` prints those with these words. Taken on {machine} unless said otherwise. `make
measure` takes most again (`make measure ARGS="scale overhead"`: only these groups)."""

OLDER = re.compile(r"before|[0-9a-f]{8}")
"""Columns of what a figure was before: the word, or a revision."""

REMARK = re.compile(r" \((?:[^()]|\([^()]*\))*\)")
NO_LIMITS = frozenset({"none", "reported"})
"""What stands where a figure is held to nothing."""
NAME, FIGURE, LIMIT = 8, 7, 5
"""Words that each column of the page has at most."""


def page(data: dict[str, Any]) -> str:
    """The page of all sections that have a figure with a limit."""
    introduction = textwrap.fill(INTRODUCTION.format(**data), WIDTH, break_long_words=False, break_on_hyphens=False)
    parts = [f"# Measurements\n\n{introduction}\n"]
    for section in data["sections"]:
        lines = [line for table in section["tables"] for line in _lines(table)]
        if lines:
            heading = ("what", "figure", "limit", "date"), ("---",) * 4
            table = "\n".join(f"| {' | '.join(line)} |" for line in (*heading, *lines))
            parts.append(f"## {section['section']}\n\n{table}\n")
    return "\n".join(parts)


def whole(data: dict[str, Any], words: list[str]) -> str:
    """Tables as the file has them, of their rows only those that have all words, in themselves or in the title."""
    tables: list[dict[str, Any]] = []
    for table in (table for section in data["sections"] for table in section["tables"]):
        texts = [f"{table['title']} {' '.join(map(str, row.values()))}".lower() for row in table["rows"]]
        rows = [
            row for row, text in zip(table["rows"], texts, strict=True) if all(word.lower() in text for word in words)
        ]
        if rows:
            tables.append({**table, "rows": rows})
    return yaml.safe_dump(tables, sort_keys=False, allow_unicode=True, width=100) if tables else ""


def _lines(table: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Name, figure, limit and date of the rows that have a limit and that nothing supersedes."""
    if table.get("superseded"):
        return
    for row in table["rows"]:
        if row.get("limit", "none") not in NO_LIMITS and not row.get("superseded"):
            (subject, name), *figures = (pair for pair in row.items() if pair[0] not in {"limit", "peer", "date"})
            newer = [pair for pair in figures if not OLDER.fullmatch(pair[0])] or figures[-1:]
            yield (
                _shortened(name if subject == "what" else f"{name}: {table['title']}", NAME),
                _shortened("; ".join(text for _, text in newer), FIGURE),
                _shortened(row["limit"], LIMIT),
                row.get("date", table["date"]),
            )


def _shortened(text: str, most: int) -> str:
    """The text without remarks in brackets, cut after `most` words or where a part of it ends in their second half."""
    words = REMARK.sub("", text).replace("**", "").split()
    if len(words) <= most:
        return " ".join(words)
    ends = [count for count in range(most, most // 2, -1) if words[count - 1][-1] in ";,:."]
    cut = " ".join(words[: (ends or [most])[0]]).rstrip(";,:.")
    return f"{cut}{'`' * (cut.count('`') % 2)} …"


def main(words: list[str]) -> int:
    """Prints the page, or all that the file says about the figures with these words."""
    data = yaml.load(DATA.read_text(encoding="utf-8"), yaml.CSafeLoader)
    text = whole(data, words) if words else page(data)
    print(text, end="")
    if not text:
        print(f"measurements: expected words of a figure, got {' '.join(words)!r}; try fewer of them", file=sys.stderr)
    return 0 if text else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
