"""PJRT's C interface: whether a library is a plugin, of which version, and calls of its functions.

The layouts of table and structures are those of xla/pjrt/c/pjrt_c_api.h in openxla/xla.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
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


# --- calls


class CallError(Exception):
    """A function of the interface returned an error; its text begins with its status code, as jaxlib has it."""


_FUNCTIONS = {
    "PJRT_Error_Destroy": 0,
    "PJRT_Error_Message": 1,
    "PJRT_Error_GetCode": 2,
    "PJRT_Plugin_Attributes": 4,
    "PJRT_Client_Create": 10,
    "PJRT_Client_Destroy": 11,
    "PJRT_Client_PlatformName": 12,
    "PJRT_Client_PlatformVersion": 14,
    "PJRT_Client_Devices": 15,
    "PJRT_Client_Compile": 20,
    "PJRT_DeviceDescription_Kind": 26,
    "PJRT_Device_GetDescription": 29,
    "PJRT_Executable_Destroy": 40,
    "PJRT_Executable_Serialize": 49,
    "PJRT_LoadedExecutable_Destroy": 50,
    "PJRT_LoadedExecutable_GetExecutable": 51,
}
"""The functions that are called here, by their place in the table, which new versions only make longer."""
_CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""Names of the status codes, 0 to 16, as gRPC and Abseil number them."""
_Word = ctypes.c_void_p
_NAMED_VALUE = 7
"""Words of an attribute: its size, a pointer, its name, the length of that, its kind, its value, the length of that."""
_INT64_LIST = 2
"""The kind of an attribute that is a list of 64-bit integers."""


class Calls:
    """The functions of a loaded plugin. Every structure of the interface that is passed here is a row of words: its
    size, a pointer that stays empty, then what goes in and what comes out.
    """

    def __init__(self, library: Path) -> None:
        """`library` has passed `read_api` and been initialised in this process."""
        entry = ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)[_ENTRY]
        entry.restype = ctypes.c_void_p
        self._table = entry()

    def __call__(self, name: str, *fields: int | None) -> list[int]:
        """Calls a function with the fields of its structure, and returns these as it leaves them. Raises CallError."""
        words = (_Word * (2 + len(fields)))(ctypes.sizeof(_Word) * (2 + len(fields)), None, *fields)
        error = self._function(name)(ctypes.addressof(words))
        if error:
            raise CallError(self._text_of(error))
        return [word or 0 for word in words[2:]]

    def _function(self, name: str) -> Callable[[int], int | None]:
        place = self._table + _HEAD + ctypes.sizeof(_Word) * _FUNCTIONS[name]
        return ctypes.CFUNCTYPE(_Word, _Word)(_Word.from_address(place).value or 0)

    def _text_of(self, error: int) -> str:
        """`CODE: message` of an error, which is freed."""
        said = (_Word * 5)(40, None, error, None, None)
        self._function("PJRT_Error_Message")(ctypes.addressof(said))
        text = ctypes.string_at(said[3] or 0, said[4] or 0).decode(errors="replace")
        coded = (_Word * 4)(32, None, error, None)
        self._function("PJRT_Error_GetCode")(ctypes.addressof(coded))
        code = (coded[3] or 0) & 0xFFFFFFFF
        self._function("PJRT_Error_Destroy")(ctypes.addressof((_Word * 3)(24, None, error)))
        return f"{_CODES[code] if code < len(_CODES) else code}: {text}"

    def versions(self) -> dict[str, tuple[int, ...]]:
        """The plugin's attributes that are lists of integers: versions of StableHLO as `stablehlo_current_version`."""
        first, count = self("PJRT_Plugin_Attributes", None, None)
        versions: dict[str, tuple[int, ...]] = {}
        for index in range(count):
            words = (_Word * _NAMED_VALUE).from_address(first + index * ctypes.sizeof(_Word) * _NAMED_VALUE)
            if (words[4] or 0) & 0xFFFFFFFF == _INT64_LIST:
                numbers = (ctypes.c_int64 * (words[6] or 0)).from_address(words[5] or 0)
                versions[ctypes.string_at(words[2] or 0, words[3] or 0).decode()] = tuple(numbers)
        return versions
