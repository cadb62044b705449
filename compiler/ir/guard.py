"""Reads untrusted input in a child process first, so that a crash of the native parser becomes an error.

The child does all that reading does (parse, verify, jaxlib's passes, conversion). Input is read again in this process
only if the child survived it; if reading raised an error in the child, it raises the same error here.
"""

from __future__ import annotations

from collections.abc import Callable

from opscope.base.children.ending import Cause, signal_name
from opscope.base.children.fork import run_in_fork
from opscope.base.machine import memory_limit
from opscope.compiler.errors import CompilerInputError

SECONDS = 60.0
"""Time limit for reading one module; whole models of a hundred megabytes take a few seconds."""
MEMORY = 32 << 30
"""Address space of the child."""


class ParserCrashed(CompilerInputError):  # noqa: N818  (what happened, as the record names it)
    """The native parser did not survive the input: it got a signal, took too long or needed too much memory."""

    kind = "parser-crashed"


def vet(module: bytes | str, seconds: float = SECONDS, read: Callable[[bytes | str], object] | None = None) -> None:
    """Reads `module` in a child process and discards the result. Raises ParserCrashed if the child does not survive.

    `read` replaces `opscope.compiler.ir.door.read`.
    """
    ending = run_in_fork(lambda: _read(module, read), seconds=seconds, address_space=MEMORY, memory=memory_limit(None))
    if not ending.ok:
        words = {
            Cause.TIMEOUT: f"not back after {seconds:g} s",
            Cause.SIGNAL: signal_name(ending.code),
            Cause.MEMORY: ending.text,
        }
        ended = words.get(ending.cause, f"exit code {ending.code}")
        raise ParserCrashed(f"module: expected StableHLO that the parser comes back from, got {ended}: parser-crashed")


def _read(module: bytes | str, read: Callable[[bytes | str], object] | None) -> None:
    if read is None:
        from opscope.compiler.ir.door import read
    read(module)
