"""Passes over whole arrays that one loop in C makes (`_passes.c`), where it was compiled at installation.

Otherwise NumPy makes them in several, with the same bits (tests/test_passes.py). `compiled` is the module or None;
`state` says which it is and why, for `opscope doctor`. Arrays that are handed to it are contiguous and of the types
that its functions name; it refuses others with a TypeError or a ValueError.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

compiled: ModuleType | None = None
state = "NumPy"
"""`compiled C`, or `NumPy` and why."""


def _load() -> tuple[ModuleType | None, str]:
    try:
        from opscope.compiler.target import _passes
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        return None, "NumPy (not compiled)" if missing else f"NumPy (compiled, but it does not load: {error})"
    source = Path(__file__).with_name("_passes.c")
    if source.is_file() and hashlib.sha256(source.read_bytes()).hexdigest() != _passes.SOURCE:
        return None, "NumPy (compiled from another _passes.c)"
    return _passes, "compiled C"


compiled, state = _load()
