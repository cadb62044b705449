"""Says once per process what a program sets that has no effect here, with the reason."""

from __future__ import annotations

import warnings

from opscope.compiler.api import NoEffect

_said: set[str] = set()


def say_once(what: str, why: str) -> None:
    """Warns that something has no effect here, unless that has been said."""
    if what not in _said:
        _said.add(what)
        warnings.warn(f"{what}: has no effect here: {why}", NoEffect, stacklevel=4)
