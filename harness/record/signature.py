"""Fingerprints of error texts: equal for equal causes, whatever the op, its shapes or the machine.

A text is normalised (paths, addresses, SSA names, types, op ids and numbers become placeholders) and hashed. Two ops
that fail for one reason then share a signature, and a signature that changes overnight is news.
"""

from __future__ import annotations

import re

from opscope.base.digest import words_digest
from opscope.base.visible_text import cut

MESSAGE_LENGTH = 200
"""Longest error message in a record; the full text is the artifact."""

_AS_BEFORE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"values are wrong: (\S+) instead of (.+?) at "), r"values differ: expected \2, got \1 at "),
    (re.compile(r"NaN or Inf: (\S+) instead of (\S+) at "), r"NaN or Inf: expected \2, got \1 at "),
    (
        re.compile(r"wrong by \S+ at (.+?): (\S+) instead of (\S+), (\S+) times as much as rounding allows"),
        r"largest error: expected at most \4 of its scale, got \4 at \1: expected \3, got \2",
    ),
    (
        re.compile(r"wrong by (\S+)( of its terms| of the golden|)( \(median \S+\)|), at most (\S+) is right"),
        r"expected at most \4\2, got \1\3",
    ),
    (re.compile(r"PCC: (\S+), at least (\S+) is right"), r"PCC: expected at least \2, got \1"),
)
"""The words of wrong numbers as records had them at first: what fails as before is not failing for another reason since
its words are others."""
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    *_AS_BEFORE,
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"^device \d+, (?=result \d)"), ""),
    (re.compile(r"\b[a-z]+://\S+"), "<url>"),
    (re.compile(r"(?<![\w/.])(?:[\w.+@-]+/)*[\w+@-]+(?:\.\w+)*\.[A-Za-z]\w*(?::\d+)+"), "<path>"),
    (re.compile(r"(?:[A-Za-z]:)?(?:\.{0,2}/)(?:[\w.+@-]+/)*[\w.+@-]*(?::\d+)*"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "<id>"),
    (re.compile(r"%[\w$.-]+(?:#\d+)?(?::\d+)?"), "<ssa>"),
    (re.compile(r"\^bb\d+"), "<block>"),
    (re.compile(r"\b(?:tensor|memref|vector)<[^<>]*(?:<[^<>]*>[^<>]*)*>"), "<type>"),
    (re.compile(r"\(\s*-?\d+(?:\s*,\s*-?\d+)*\s*,?\s*\)|\[\s*-?\d+(?:\s*,\s*-?\d+)*\s*\]"), "<shape>"),
    (re.compile(r"\b\d+(?:x\d+)+(?=x|\b)"), "<shape>"),
    (re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])"), "<n>"),
    (re.compile(r"\s+"), " "),
)
"""What differs between two reports of one cause, in the order in which it is replaced."""


_READ = 1 << 16
"""So many characters of an error are looked at: a backend may report megabytes."""


def _readable(text: str) -> str:
    """The beginning of a text, in which lone surrogates, which no file can hold, are written as escapes."""
    return text[:_READ].encode("utf-8", "backslashreplace").decode()


def normalise(text: str) -> str:
    """`text` without what differs between two reports of one cause."""
    for pattern, placeholder in _RULES:
        text = pattern.sub(placeholder, text)
    return text.strip()


def signature(stage: str, text: str) -> str:
    """Twelve hex digits that name an error at a stage; depends on the first 2,000 normalised characters."""
    return words_digest(f"{stage}|{normalise(_readable(text))[:2000]}", digits=12)


def shorten(text: str, limit: int = MESSAGE_LENGTH) -> str:
    """The text on one line of at most `limit` characters, cut with an ellipsis."""
    line = " ".join(_readable(text).split())
    return cut(line, limit)
