"""PJRT's C interface as far as it can be looked at without calling it: whether a library is a plugin, of which version.

The table's layout is that of xla/pjrt/c/pjrt_c_api.h in openxla/xla.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import NamedTuple


class PluginError(Exception):
    """A file cannot be loaded as a PJRT plugin."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got = expected, got


class ApiVersion(NamedTuple):
    """The version of PJRT's C interface that a plugin was built for."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


_ENTRY = "GetPjrtApi"
_HEAD = 40
"""Bytes before the functions of the table that `GetPjrtApi` returns: its size, a pointer, and the version's four."""
_NEEDED = {"PJRT_Error_Message": 1, "PJRT_Plugin_Initialize": 3, "PJRT_Client_Create": 10}
"""Functions without which no client can be made, by their place in the table: the same since version 0.29, the oldest
that jaxlib takes."""
_SUPPORTED = 0
"""The major version of the interface; jaxlib itself refuses minor ones that are too old for it."""


def read_api(library: Path) -> ApiVersion:
    """Loads a file and returns the version of the interface that it offers, reading nothing behind the table's end.

    The library stays loaded: a client needs it next. Raises PluginError for what is no plugin, or for a table without
    the functions that jaxlib would call, which would end the process.
    """
    try:
        # Loaded once, however often it is opened. Its names are its own, as jaxlib has it.
        loaded = ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise PluginError("a shared library that can be loaded", str(error).partition("\n")[0][:200]) from error
    try:
        entry = loaded[_ENTRY]
    except AttributeError:
        raise PluginError("a PJRT plugin", f"a library without {_ENTRY}") from None
    entry.restype = ctypes.c_void_p
    table = entry()
    if not table:
        raise PluginError("a PJRT plugin", f"no table from its {_ENTRY}")
    size = ctypes.c_size_t.from_address(table).value
    if size < _HEAD:
        raise PluginError("a table of PJRT's functions", f"one of {size} bytes, too few for its version")
    version = ApiVersion(*(ctypes.c_int.from_address(table + place).value for place in (32, 36)))
    if version.major != _SUPPORTED:
        raise PluginError(f"PJRT API {_SUPPORTED}.x", f"version {version}")
    word = ctypes.sizeof(ctypes.c_void_p)
    for name, place in _NEEDED.items():
        at = _HEAD + word * place
        if size < at + word or not ctypes.c_void_p.from_address(table + at).value:
            raise PluginError(f"PJRT API {_SUPPORTED}.x", f"version {version} without {name}")
    return version
