"""The last IR that a compiler made of an op, as text that two of its releases can be compared by.

Without locations, descriptors of devices and the modules around a function, and with aliases replaced by what they
stand for, the texts of one program are equal, whatever the release prints around it. Standard library only.
"""

from __future__ import annotations

import re
from pathlib import Path

_LAST = ("ttnn.mlir", "2-ttnn.mlir", "optimised.hlo", "stream.mlir")
"""The last IR that says what is computed, of the compilers that are known; of others it is the newest file."""
_TEXTS = (".mlir", ".hlo", ".txt", ".ll")
_ALIAS = re.compile(r"^([#!][\w$.-]+) = (.*)$", re.MULTILINE)
_USED = re.compile(r"[#!][A-Za-z_][\w$.-]*")
_WRAPPER = re.compile(
    r"^\s*(?:module\b|builtin\.module\b|ttcore\.device_module\b|ttcore\.device\b|util\.global .*@__device_).*$\n?",
    re.MULTILINE,
)
_METADATA = re.compile(r",? ?metadata=\{[^{}]*\}")
_EMPTY = re.compile(r"\b\w+ = \[\](?:, )?")
"""An attribute without a value: one release prints it, another does not."""
_BLANKS = re.compile(r'("(?:[^"\\\n]|\\.)*")|[ \t\r]*(\n)[ \t\r]*|[ \t\r]+')
"""Texts in quotes, ends of lines, and blanks."""
_DESCRIPTOR = "ttcore.system_desc"
_MOST_NESTED = 8
"""Aliases stand for what has aliases in it; so deep at most."""


def last_ir(folder: Path) -> Path | None:
    """The file with the last IR of an op; None if there is none."""
    for name in _LAST:
        if (folder / name).is_file():
            return folder / name
    texts = [path for path in folder.glob("*") if path.suffix in _TEXTS] if folder.is_dir() else []
    return max(texts, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def plain(text: str) -> str:
    """An IR without locations, descriptors, modules around it and empty attributes, and with no aliases."""
    text = _BLANKS.sub(lambda match: match[1] or match[2] or " ", text.strip())
    aliases = {match[1]: match[2] for match in _ALIAS.finditer(text) if not match[2].startswith("loc(")}
    aliases = {name: f"#{_DESCRIPTOR}" if _DESCRIPTOR in value else value for name, value in aliases.items()}
    body = _WRAPPER.sub("", _without_locations(_METADATA.sub("", _ALIAS.sub("", text))))
    for _ in range(_MOST_NESTED):
        replaced = _USED.sub(lambda match: aliases.get(match[0], match[0]), body)
        if replaced == body:
            break
        body = replaced
    body = _EMPTY.sub("", body)
    body = re.sub(r" <\{,? ?\}>", "", re.sub(r", \}>", "}>", body))
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    while len(lines) > 1 and lines[-1] == lines[-2] == "}":  # of modules that are left out
        lines.pop()
    return "\n".join(lines)


def _without_locations(text: str) -> str:
    """Cuts `loc(...)`, which may hold brackets and quoted text."""
    parts: list[str] = []
    place = 0
    while (start := text.find("loc(", place)) >= 0:
        if start and (text[start - 1].isalnum() or text[start - 1] in "_."):  # the end of another word
            parts.append(text[place : start + 4])
            place = start + 4
            continue
        parts.append(text[place:start].rstrip(" "))
        place = _end_of_brackets(text, start + 3)
    return "".join([*parts, text[place:]])


def _end_of_brackets(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`."""
    depth, quoted = 0, False
    for place in range(start, len(text)):
        character = text[place]
        if character == '"' and text[place - 1] != "\\":
            quoted = not quoted
        elif not quoted and character in "()":
            depth += 1 if character == "(" else -1
            if not depth:
                return place + 1
    return len(text)
