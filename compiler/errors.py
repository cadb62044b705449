"""The errors of the compiler: a stage that cannot lower an op, and bad input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StageFailure(Exception):
    """Raised if a stage cannot lower an op. `kind` tells whether it could one day: notimpl, notyet, never or error."""

    def __init__(self, stage: str, op: str, message: str, *, kind: str = "error", diagnostic: str = "") -> None:
        self.stage, self.op, self.message, self.kind, self.diagnostic = stage, op, message, kind, diagnostic
        self.source: int | None = None
        """Number of the op that was refused, in a module whose ops are numbered (`ttcore.source`)."""
        super().__init__(f"{stage}: {op}: {message}")


class CompilerInputError(ValueError):
    """Bad input to the compiler, with the message `<where>: expected X, got Y; try Z`; commands exit with 2."""


@contextmanager
def noted(note: Callable[[], str]) -> Iterator[None]:
    """Adds a note to any exception raised inside; the diagnostic of a `StageFailure` shows it."""
    try:
        yield
    except Exception as error:
        error.add_note(note())
        raise
