"""What JAX sees while a module's `forward` runs: values of parameters, names of ops, results to tap.

A name that the user gave to an op goes into the locations of the module (`MARK`), from where the compiler takes it for
the op of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opscope.simulator.host.errors import PyBudaError

MARK = "buda.op="
"""Precedes an op's name in a location."""


class Tracing:
    """One run of `forward`."""

    def __init__(self, module: str, values: Mapping[int, Any], taps: Sequence[tuple[str, int]] = ()) -> None:
        """`values`: id of a parameter -> its value; `taps`: names of ops whose results are wanted."""
        self.module, self.values = module, values
        self.taps = tuple(taps)
        self.tapped: dict[tuple[str, int], Any] = {}
        self._counts: dict[str, int] = {}
        self._names: set[str] = set()

    def name(self, wanted: str, kind: str) -> str:
        """Returns the name of an op: the given one, or its kind and a number. Raises PyBudaError if it is taken."""
        if not wanted:
            number = self._counts[kind] = self._counts.get(kind, -1) + 1
            wanted = f"{kind.lower()}_{number}"
            while wanted in self._names:
                number = self._counts[kind] = number + 1
                wanted = f"{kind.lower()}_{number}"
        elif wanted in self._names:
            raise PyBudaError(
                f"{self.module}: expected names of ops that are unique to the module, got {wanted!r} twice; "
                "try '' for a name of its own"
            )
        self._names.add(wanted)
        return wanted

    def made(self, name: str, result: Any) -> None:
        """Notes the results of an op, if they are tapped. Raises PyBudaError for an output that it has not."""
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        for tap in self.taps:
            if tap[0] == name:
                if not 0 <= tap[1] < len(outputs):
                    raise PyBudaError(f"{name}: expected an output below {len(outputs)}, got {tap[1]}")
                self.tapped[tap] = outputs[tap[1]]


_CURRENT: ContextVar[Tracing | None] = ContextVar("tracing", default=None)


def current() -> Tracing | None:
    """Returns the trace that runs, if any."""
    return _CURRENT.get()


@contextmanager
def tracing(trace: Tracing) -> Iterator[Tracing]:
    """Within this context, ops belong to `trace`."""
    token = _CURRENT.set(trace)
    try:
        yield trace
    finally:
        _CURRENT.reset(token)
