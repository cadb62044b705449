"""Source locations: what the framework called an op, and the file and line it came from."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from jaxlib.mlir import ir

from opscope.base.places import HOME

_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an op comes from, as far as its location shows."""

    name: str = ""
    """The exporter's path of names, e.g. `jit(resnet50)/stage1/block0/conv_general_dilated`."""
    file: str = ""
    """As `short_path` has it."""
    line: int = 0

    def inside(self, call: Place) -> Place:
        """This place, read inside a function called at `call`: names follow the call's, file and line fall back
        on it (an exporter lowers a shared function once, so only the call knows the layer)."""
        name = f"{call.name}/{self.name}" if call.name and self.name else self.name or call.name
        return Place(name, self.file, self.line) if self.file else Place(name, call.file, call.line)

    @property
    def framework_op(self) -> str:
        """The last of the names: the op in the framework's words, e.g. `conv_general_dilated`."""
        return self.name.rsplit("/", 1)[-1].rstrip(":")

    def __str__(self) -> str:
        spot = f"{self.file}:{self.line}" if self.file else ""
        return f"{self.name} ({spot})" if self.name and spot else self.name or spot


def place_of(location: Any) -> Place:
    """The place that `location` names. The outermost name wins (JAX puts the path of names outside, Python's
    function names inside), the innermost call frame gives file and line, a fused location its first parts."""
    if isinstance(location, ir.NameLoc):
        child = place_of(location.child_loc)
        return Place(location.name_str, child.file, child.line)
    if isinstance(location, ir.FileLineColLoc):
        return Place("", short_path(location.filename), location.start_line)
    if isinstance(location, ir.CallSiteLoc):
        callee = place_of(location.callee)
        if callee.file:
            return callee
        caller = place_of(location.caller)
        return Place(callee.name or caller.name, caller.file, caller.line)
    if isinstance(location, ir.FusedLoc):
        parts = [place_of(part) for part in location.locations]
        name = next((part.name for part in parts if part.name), "")
        spot = next((part for part in parts if part.file), Place())
        return Place(name, spot.file, spot.line)
    return Place()


def located(location: Any) -> Any:
    """`location` as name, file and line alone, the file as records show it: what a single op's module carries."""
    place = place_of(location)
    with location.context:
        spot = ir.Location.file(place.file, place.line, 0) if place.file else ir.Location.unknown()
        return ir.Location.name(place.name, spot) if place.name else spot


@functools.lru_cache
def short_path(file: str) -> str:
    """`file` without the parts that belong to this machine.

    It is relative to the project, to installed packages or to the folder that the export was called in. A StableHLO
    file and a file from anywhere else go by their names alone: exports are kept by a file's content, so who reads one
    may have the file in another folder, or be on another machine.
    """
    path = PurePath(file)
    ours = path.relative_to(HOME) if path.is_relative_to(HOME) else None
    if ours and path.suffix == ".py" and not set(ours.parts) & set(_INSTALLED):
        return ours.as_posix()  # from its room, wherever the project is installed
    for part in reversed(_INSTALLED):
        if part in path.parts:
            return PurePath(*path.parts[path.parts.index(part) + 1 :]).as_posix()
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return path.name if path.suffix != ".py" or path.is_absolute() else path.as_posix()
