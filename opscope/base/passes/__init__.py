"""Passes over whole arrays that one loop in C makes (`_passes.c`), where it was compiled at installation.

Otherwise NumPy makes them in several, with the same bits (compiler/target/tests/test_passes.py). `compiled` is the
module or None; `state` says which it is and why, for `opscope doctor`. With `left_unused`, a compiled module is there
that cannot be used, which a run says in its header. Arrays that are handed to `compiled` are contiguous and of types
that its functions name; it refuses others with a TypeError or a ValueError.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from pathlib import Path
from types import ModuleType

from opscope.base.installing import install_command

_NOT_COMPILED = "NumPy (not compiled: no C compiler at installation)"


def _load() -> tuple[ModuleType | None, str]:
    try:
        module = import_module("opscope.base.passes._passes")
    except ModuleNotFoundError:
        return None, _NOT_COMPILED
    except ImportError as error:
        return None, f"NumPy (compiled, but it does not load: {error})"
    source = Path(__file__).with_name("_passes.c")
    if source.is_file() and hashlib.sha256(source.read_bytes()).hexdigest() != module.SOURCE:
        return None, f"NumPy (compiled from another _passes.c; try {install_command()})"
    return module, "compiled C"


compiled, state = _load()
left_unused = compiled is None and state != _NOT_COMPILED
