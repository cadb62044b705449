r"""Text from elsewhere as something to look at: characters that act on a terminal or hide are written as escapes.

Errors of compilers, names of ops and locations come from outside. A terminal obeys what they contain: ESC sequences
move the cursor, set titles or answer, BEL rings, bidirectional overrides show other words than there are. Escapes are
those of JSON (`\u001b`, `\u202e`, `\ud800`), so that a text that is JSON stays JSON, with the same value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ACTING = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u00ad\u061c\u180e"  # soft hyphen, Arabic letter mark, Mongolian vowel separator
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, separators, bidirectional marks, overrides and isolates
    "\ud800-\udfff"  # lone surrogates, which no encoding has
    "\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f"  # byte order mark, annotations, tags
)
"""The characters that are escaped, as the inside of a character class."""

_LINE = re.compile(f"[{ACTING}]")
_TEXT = re.compile(f"(?![\n\t])[{ACTING}]")
_STYLED = re.compile(f"(?!\x1b\\[[0-9;]*m)(?![\n\t])[{ACTING}]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
"""NUL as the database has it (reports/records/columns.py)."""


def percent_change(before: float, now: float) -> str:
    """By how much a number rose or fell: `+1.49 %`."""
    return f"{100 * (now / before - 1):+.2f} %"


def counted(number: int, noun: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def counted_each(rows: Mapping[str, int]) -> str:
    """`1 night, 3 op tests`, of the numbers of `nights` and `op_tests`."""
    return ", ".join(counted(number, name.removesuffix("s").replace("_", " ")) for name, number in rows.items())


def one_line(text: str) -> str:
    """`text` on one line, with escapes for every character that acts, also for new lines and tabs."""
    return text if text.isprintable() else _LINE.sub(_escape, text)


def visible(text: str) -> str:
    """`text` with its new lines and tabs, and with escapes for every other character that acts."""
    return text if text.isprintable() else _TEXT.sub(_escape, text)


def visible_but_style(text: str) -> str:
    """`visible`, but sequences that only set colour and weight stay: for output that a program has styled itself."""
    return text if text.isprintable() else _STYLED.sub(_escape, text)


def visible_values(value: Any) -> Any:
    """A value as JSON has it with each of its texts by `visible`."""
    kind = type(value)
    if kind is str:
        return value if value.isprintable() else _TEXT.sub(_escape, value)
    if kind is dict:
        return {name: visible_values(item) for name, item in value.items()}
    if kind is list or kind is tuple:
        return [visible_values(item) for item in value]
    return value


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"


class VisibleStream:
    """A text stream on which everything is written by `visible`. Every other attribute is that of `stream`."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    @property
    def encoding(self) -> str:
        """UTF-8 also where the stream is ASCII, as click would write past this object otherwise."""
        return "utf-8"

    def write(self, text: str) -> int:
        """Writes a text; what the stream's encoding has no character for is escaped as well."""
        shown = visible(text)
        try:
            self.stream.write(shown)
        except UnicodeEncodeError:
            encoding = self.stream.encoding
            self.stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes each text."""
        for line in lines:
            self.write(line)


def cut(text: str, limit: int) -> str:
    """A text of at most `limit` characters; one that is longer ends in an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
