"""Notices what an op changes in its worker and leaves behind, and undoes what can be undone.

The lane replaces the worker after a change (`leftovers.py`). What may change without that, and why:

- Modules and functions that are added, and memory: backends load lazily (the lane watches memory).
- Threads of native code: pools of compilers and of BLAS grow at first use (the lane watches their number).
- Some more open files (`process_state.FILES`): caches, weights mapped into memory. Dead children: they do nothing.
- What JAX sets when it is loaded (`process_state.SET_BY_JAX`): the comparison may be the first to need it.
- Random states: each op begins with the same one.
- Context variables, such as NumPy's error state and decimal contexts: each op runs in a context of its own.

An op that does what it does behind Python's back, in the memory of the interpreter, is not seen.
"""

from __future__ import annotations

import contextvars
import faulthandler
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from typing import Any, TypeVar

import numpy as np

from opscope.harness.lanes import process_state
from opscope.harness.lanes.loaded_code import LoadedCode
from opscope.harness.lanes.process_state import Row

_SEED = 0
_NAMES = 5
"""So many replaced functions are named."""
T = TypeVar("T")


@dataclass(frozen=True)
class Change:
    """One thing that an op left changed."""

    what: str
    """`environment`, `current folder`, ...: a row of `process_state`, or `code`."""
    detail: str
    undone: bool = False
    """Whether it was put back."""
    verdict: bool = False
    """Whether the op's own verdict rests on it and can therefore not be believed."""

    def as_json(self) -> list[Any]:
        """The change as a message holds it."""
        return [*astuple(self)]


class WorkerState:
    """The process as it was before its first op."""

    def __init__(self, connection: int) -> None:
        """`connection` is the file descriptor of the socket to the lane."""
        self._rows = process_state.rows(connection)
        self._jax = _jax_options()
        self._early: list[Change] = []
        self._take_baseline()

    def run(self, climb: Callable[[], T]) -> T:
        """Runs an op: with the random state that every op begins with, in a context of its own."""
        if self._stale:  # the lane has kept this worker although something changed
            self._take_baseline()
        random.seed(_SEED)
        np.random.seed(_SEED)
        return contextvars.copy_context().run(climb)

    def before_compare(self) -> None:
        """Puts back what could disturb the comparison: modes of arithmetic, timers, tracing."""
        self._early = _put_back(self._early_rows)

    def changes(self) -> list[Change]:
        """Returns what has changed since the worker began, and puts back what can be."""
        faulthandler.cancel_dump_traceback_later()  # would end the process later; nothing shows whether one is set
        left = self._early + _put_back(zip(self._rows, self._before, strict=True))
        self._early = []
        left += [Change("code", f"{name} replaced", verdict=True) for name in self._code.verdict_changes()[:_NAMES]]
        left += [Change("code", f"{name} replaced") for name in self._code.other_changes()[:_NAMES]]
        jax = _jax_options()
        if self._jax and jax != self._jax:
            left.append(Change("options of JAX", process_state.entries(self._jax, jax)))
        self._jax = jax
        self._stale = bool(left)
        return left

    def _take_baseline(self) -> None:
        self._code = LoadedCode()
        self._before = [row.value() for row in self._rows]
        self._early_rows = [(row, value) for row, value in zip(self._rows, self._before, strict=True) if row.early]
        self._stale = False


def _put_back(pairs: Iterable[tuple[Row, Any]]) -> list[Change]:
    """What differs from the values given; each is put back, where that is possible, before the next is read."""
    return [
        Change(row.what, row.described(before, now), row.put_back(before))
        for row, before in pairs
        if (now := row.value()) != before
    ]


def _jax_options() -> dict[str, Any]:
    """JAX's options if it is loaded."""
    config = getattr(sys.modules.get("jax"), "config", None)
    return dict(getattr(config, "values", None) or {})
