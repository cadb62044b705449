"""Reads the ops of a printed module of ttir or ttnn, whoever printed it: names, attributes, types of results.

It knows the shape of MLIR's text and no dialect, so that it reads ops and attributes that this compiler lacks. What is
neither quoted nor of a dialect (functions, `return`, modules, locations) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_OP = re.compile(
    r'"(?P<quoted>[a-z_]\w*\.\w+)"\(|^ *(?:%[\w:, %#]+ = )?(?P<bare>ttir\.\w+|ttnn\.\w+|ttcore\.load_cached)\b',
    re.MULTILINE,
)
"""The name of an op in generic syntax, or of one that tt-mlir prints in its own."""
_ALIAS = re.compile(r"^(#[\w$.-]+) = (.*)$", re.MULTILINE)
_USE = re.compile(r"#[A-Za-z_][\w$-]*")
_LOCATION = re.compile(r" loc\((?:#loc\w*|unknown)\)")
_OPEN, _CLOSE = "([{<", ")]}>"


@dataclass(frozen=True)
class Layout:
    """How a tensor of ttnn lies in memory."""

    element: str
    """Element type in memory: `f32`, `bf16`, `si32`, ..."""
    tiled: bool
    memory: str
    """`dram`, `l1` or `system_memory`."""
    sharding: str
    """`interleaved`, `height_sharded`, ...; empty on the host."""
    grid: str

    def __str__(self) -> str:
        words = (self.element, "tiles" if self.tiled else "rows", self.memory, self.sharding)
        return " ".join(word for word in words if word) + ("" if self.grid in ("", "1x1") else f" on {self.grid}")


@dataclass(frozen=True)
class PrintedOp:
    """One op of a printed module."""

    name: str
    """With its dialect: `ttir.add`."""
    attributes: dict[str, str]
    """Name -> value as it is printed, without aliases; a flag's value is `unit`."""
    results: tuple[str, ...]
    """Types of its results, without aliases."""

    @cached_property
    def layouts(self) -> tuple[Layout | None, ...]:
        """Layout of each result; None where the type has none."""
        return tuple(layout_of(kind) for kind in self.results)


def read(text: str) -> tuple[PrintedOp, ...]:
    """Returns the ops of a module in the order of its text, those of regions and functions included."""
    text = _without_locations(text)
    aliases = dict(_ALIAS.findall(text))
    return tuple(_ops(_ALIAS.sub("", text), aliases))


def _without_locations(text: str) -> str:
    lines = (line for line in text.splitlines() if not line.startswith("#loc"))
    text = _LOCATION.sub("", "\n".join(lines))
    while (start := text.find(' loc("')) >= 0:
        text = text[:start] + text[_closing(text, start + 4) :]
    return text


def _ops(text: str, aliases: dict[str, str]) -> Iterator[PrintedOp]:
    for match in _OP.finditer(text):
        if match["quoted"]:
            at = _closing(text, match.end() - 1)
        else:
            at = match.end()
            at = _closing(text, at) if text[at : at + 1] == "(" else at
        attributes: dict[str, str] = {}
        for opening in (" <{", " {"):
            if text.startswith(opening, at):
                end = _closing(text, at + 1)
                inner = text[at + len(opening) : end - (2 if opening == " <{" else 1)]
                attributes |= _attributes(inner, aliases)
                at = end
            if opening == " <{" and text.startswith(" ({", at):
                at = _closing(text, at + 1)
        line_end = text.find("\n", at)
        types = text[at : line_end if line_end >= 0 else len(text)]
        yield PrintedOp(match["quoted"] or match["bare"], attributes, _result_types(types, aliases))


def _result_types(text: str, aliases: dict[str, str]) -> tuple[str, ...]:
    """The types behind the arrow, or the one behind the colon of an op without operands."""
    depth, start = 0, text.find(":") + 1
    for at in range(start, len(text)):
        if text[at] in _OPEN:
            depth += 1
        elif text[at] in _CLOSE and not (text[at] == ">" and text[at - 1] == "-"):
            depth -= 1
        elif text.startswith("->", at) and depth == 0:
            start = at + 2
            break
    types = text[start:].strip()
    if types.startswith("("):
        types = types[1 : _closing(types, 0) - 1]
    return tuple(_expanded(kind.strip(), aliases) for kind in split(types) if kind.strip())


def _attributes(text: str, aliases: dict[str, str]) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for part in split(text):
        name, equals, value = part.strip().partition(" = ")
        attributes[name] = _expanded(value, aliases) if equals else "unit"
    return attributes


def _expanded(text: str, aliases: dict[str, str]) -> str:
    """The text with the values of its aliases, which may have aliases of their own."""
    return _USE.sub(lambda use: _expanded(aliases[use[0]], aliases) if use[0] in aliases else use[0], text)


def split(text: str) -> list[str]:
    """Splits at the commas that stand in no bracket and no quotes."""
    parts, start = [], 0
    for at, letter, depth in _unquoted(text):
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text.strip() else parts


def _closing(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`; the end where none does."""
    closed = (at + 1 for at, letter, depth in _unquoted(text, start) if letter in _CLOSE and depth == 0)
    return next(closed, len(text))


def _unquoted(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """Each letter from `start` on that stands in no quotes: its place, the letter, and how many brackets that were
    opened since are open after it. The `>` of an arrow closes none, and is left out."""
    depth, at = 0, start
    while at < len(text):
        letter = text[at]
        if letter == '"':
            at = _end_of_quotes(text, at)
            continue
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            if letter == ">" and text[at - 1] == "-":
                at += 1
                continue
            depth -= 1
        yield at, letter, depth
        at += 1


def _end_of_quotes(text: str, start: int) -> int:
    at = start + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def layout_of(kind: str) -> Layout | None:
    """Returns the layout in a tensor's type, aliases expanded; None where it has none."""
    start = kind.find("#ttnn.ttnn_layout<")
    if start < 0:
        return None
    opening = start + len("#ttnn.ttnn_layout")
    parts = [part.strip() for part in split(kind[opening + 1 : _closing(kind, opening) - 1])]
    memory = next((part for part in parts if part.startswith("memref<")), "")
    grid = next((part[1:-1] for part in parts if re.fullmatch(r"<\d+x\d+>", part)), "")
    sharding = next((part[1:-1] for part in parts if re.fullmatch(r"<[a-z_]+>", part)), "")
    tile = re.search(r"!ttcore\.tile<[\dx]+, (\w+)>", memory)
    plain = re.match(r"memref<(?:\d+x)*(\w+)", memory)
    buffer = re.search(r"buffer_type<(\w+)>", memory)
    element = tile[1] if tile else plain[1] if plain else ""
    return Layout(element, tile is not None, buffer[1] if buffer else "", sharding, grid)
