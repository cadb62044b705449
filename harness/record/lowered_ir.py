"""The last IR that a compiler made of an op, as text that two of its releases can be compared by.

Without locations, descriptors of devices and the modules around a function, and with aliases replaced by what they
stand for, the texts of one program are equal, whatever the release prints around it. Standard library only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
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
_DESCRIPTOR = "ttcore.system_desc"
_MOST_NESTED = 8
"""Aliases stand for what has aliases in it; so deep at most."""

_OP = re.compile(r'(?:^|= )(?:"(\w+\.[\w.]+)"\(|(\w+\.[\w.]+) )', re.MULTILINE)
_NUMBER = re.compile(r"%[\w#]+")
_ELEMENTS = re.compile(r"tensor<(?:[\d?]+x)*(\w+)[,>]")
_LAYOUT = re.compile(r"#[\w.]*layout\w*<[^\n]*")
_FREED = "ttnn.deallocate"
_SILENT = frozenset({_FREED, "func.func", "func.return"})
"""Ops that follow from others."""
MOST_OPS = 3
"""Ops that a name has, of those that came and of those that went."""


def last_ir(folder: Path) -> Path | None:
    """The file with the last IR of an op; None if there is none."""
    for name in _LAST:
        if (folder / name).is_file():
            return folder / name
    texts = [path for path in folder.glob("*") if path.suffix in _TEXTS] if folder.is_dir() else []
    return max(texts, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def plain(text: str) -> str:
    """An IR without locations, descriptors, modules around it and empty attributes, and with no aliases."""
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
    lines = (line.strip() for line in body.splitlines())
    return "\n".join(line for line in lines if line.strip("} "))


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


def difference(before: str, now: str) -> str:
    """Names in what two IRs of one op differ: in ops, else in attributes, layouts or types, each by the ops' names."""
    old_ops, new_ops = (Counter(filter(None, (one or two for one, two in _OP.findall(ir)))) for ir in (before, now))
    gone, come = old_ops - new_ops, new_ops - old_ops
    left, came = (sorted(names.keys() - _SILENT) for names in (gone, come))
    if left and came:
        return f"ops: {_listed(left)} {'becomes' if len(left) == 1 else 'become'} {_listed(came)}"
    if left or came:
        fused = f", fused into {_listed(fusing)}" if left and (fusing := _fusing(before, now)) else ""
        return f"ops: {_listed(left)} no more{fused}" if left else f"ops: {_listed(came)} anew"
    old_lines, new_lines = (Counter(_NUMBER.sub("%", line) for line in ir.splitlines()) for ir in (before, now))
    gone_lines, come_lines = [*(old_lines - new_lines)], [*(new_lines - old_lines)]
    changed = {_name(line) for line in (*gone_lines, *come_lines)}
    if changed <= {_FREED}:
        return "order of ops"
    names = sorted(changed - _SILENT) or ["the function"]
    asked = [Counter(pair for line in lines for pair in _attributes(line)) for lines in (gone_lines, come_lines)]
    others = [*(asked[0] - asked[1]), *(asked[1] - asked[0])]
    if others:
        owners = sorted({owner for owner, _, _ in others})
        return f"{_listed(sorted({name for _, name, _ in others}))} of {_listed(owners)}"
    old, new = (sorted(_LAYOUT.sub("", line) for line in lines) for lines in (gone_lines, come_lines))
    if old == new:
        return f"layouts of {_listed(names)}"
    types = [Counter(kind for line in lines for kind in _ELEMENTS.findall(line)) for lines in (gone_lines, come_lines)]
    left, came = sorted(types[0] - types[1]), sorted(types[1] - types[0])
    return f"types of {_listed(names)}" + (f": {_listed(left)} becomes {_listed(came)}" if left and came else "")


def _attributes(line: str) -> Iterable[tuple[str, str, str]]:
    """The attributes of an op in generic form: name of the op, of the attribute, its value."""
    start = line.find("<{")
    text = line[start + 2 : line.rfind("}>")] if start >= 0 else ""
    depth = begin = 0
    for place, character in enumerate(f"{text},"):
        depth += (character in "<([{") - (character in ">)]}" and text[place - 1 : place] != "-")
        if character == "," and not depth:
            name, _, value = text[begin:place].strip().partition(" = ")
            begin = place + 1
            if name:
                yield _name(line), name, value


def _fusing(before: str, now: str) -> list[str]:
    """The ops that have more attributes than before, where others have gone: these were fused into them."""
    old = {_name(line): line.count(" = ") for line in before.splitlines()}
    more = {name for line in now.splitlines() if (name := _name(line)) in old and line.count(" = ") > old[name]}
    return sorted(more - _SILENT)


def _name(line: str) -> str:
    match = _OP.search(line)
    return (match[1] or match[2]) if match is not None else "func.func"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_OPS
    return " + ".join(names[:MOST_OPS]) + (f" and {more} more" if more > 0 else "")
