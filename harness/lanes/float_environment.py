"""The processor's floating-point mode of this thread: rounding, flush-to-zero, traps.

A backend's library that was linked with `-ffast-math` sets flush-to-zero when it is loaded; from then on NumPy treats
subnormal numbers of every later op as zero, its golden's included.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable

_SIZE = 64
"""Bytes that hold a `fenv_t` of any platform here (32 on x86-64 and 8 on AArch64 with glibc)."""
_MODES: dict[str, Callable[[bytes], int]] = {
    # MXCSR without the six flags that any inexact operation raises, and the control word of the x87.
    "x86_64": lambda state: (
        (struct.unpack_from("<I", state, 28)[0] & ~0x3F) << 16 | struct.unpack_from("<H", state, 0)[0]
    ),
    # FPCR; FPSR behind it holds the flags.
    "aarch64": lambda state: struct.unpack_from("<I", state, 0)[0],
}
"""Machine -> the bits of glibc's `fenv_t` that decide how numbers are computed."""


class FloatEnvironment:
    """The mode of this thread, as it is now and as it was when this object was made."""

    def __init__(self) -> None:
        self._library = _library()
        self._mode = _MODES.get(platform.machine())
        self._buffer = ctypes.create_string_buffer(_SIZE)
        self._before = self._state()

    def mode(self) -> int:
        """The bits that decide how numbers are computed, to compare; 0 where they are unknown."""
        return self._mode(self._state()) if self._library is not None and self._mode is not None else 0

    def restore(self) -> None:
        """Sets the mode that this object found when it was made."""
        if self._library is not None:
            self._library.fesetenv(ctypes.create_string_buffer(self._before, _SIZE))

    def _state(self) -> bytes:
        if self._library is not None:
            self._library.fegetenv(self._buffer)
        return self._buffer.raw


def _library() -> ctypes.CDLL | None:
    """The C library's floating-point functions, where the layout of their state is known."""
    if platform.machine() not in _MODES or platform.libc_ver()[0] != "glibc":
        return None
    try:
        library = ctypes.CDLL("libm.so.6")
        assert library.fegetenv
        assert library.fesetenv
    except (OSError, AttributeError):
        return None
    return library
