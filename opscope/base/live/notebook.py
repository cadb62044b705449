"""What takes long, shown in a notebook as on a terminal: one line below its cell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opscope.base.live import progress

EACH = 0.5
"""Seconds between two drawings in a notebook."""


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules and getattr(_shell(), "kernel", None) is not None


@contextmanager
def shown(name: str) -> Iterator[None]:
    """Shows what the call `name` is at, by the steps that it says (`progress.step`), for as long as it runs."""
    if not in_notebook():
        with progress.command(name):
            yield
        return
    from IPython.display import display

    cell: Any = display(_plain(""), raw=True, display_id=True)
    try:
        with progress.command(name, minute=EACH, write_line=lambda text: cell.update(_plain(text), raw=True)):
            yield
    finally:
        cell.update(_plain(""), raw=True)


def _plain(text: str) -> dict[str, str]:
    return {"text/plain": text}


def _shell() -> Any:
    """IPython's shell; None outside of one."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()
