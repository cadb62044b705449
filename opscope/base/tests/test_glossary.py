"""docs/glossary.md: every word once, and statuses and labels as the table of words explains them."""

from __future__ import annotations

import re
from pathlib import Path

from opscope.base.labels import LABELS
from opscope.base.statuses import STATUSES

GLOSSARY = Path(__file__).parents[3] / "docs" / "glossary.md"
ROW = re.compile(r"^\| (?!---|word|status|label)(.+?) \| (.+) \|$", re.MULTILINE)


def test_every_word_has_one_meaning() -> None:
    rows = ROW.findall(GLOSSARY.read_text(encoding="utf-8"))
    words = [word for word, _ in rows]
    assert len(set(words)) == len(words)
    assert 30 < len(set(words) - {f"`{word}`" for word in (*STATUSES, *LABELS)}) <= 50, "few words of our own"
    assert [meaning for _, meaning in rows if not meaning.endswith(".")] == []


def test_statuses_and_labels_mean_what_reports_say() -> None:
    rows = dict(ROW.findall(GLOSSARY.read_text(encoding="utf-8")))
    for word, about in {**STATUSES, **LABELS}.items():
        assert rows[f"`{word}`"] == about.meaning
