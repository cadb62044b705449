"""Reading input that nobody vouches for: first in a child, so that a crash of the native parser is an error.

The child does all that reading does (parse, verify, jaxlib's passes, our walk). Only what it came back from is read
again here. What it refused in words is refused here in the same words.
"""

from __future__ import annotations

from collections.abc import Callable

from opscope.base.children.ending import Cause, signal_name
from opscope.base.children.fork import run_in_fork
from opscope.compiler.errors import CompilerInputError

SECONDS = 60.0
"""What reading one module may take; whole models of a hundred megabytes take a few."""
MEMORY = 32 << 30
"""Address space of the child."""


class ParserCrashed(CompilerInputError):  # noqa: N818  (what happened, as the record names it)
    """The native parser did not come back from the input: a signal, too long, or too much memory."""

    kind = "parser-crashed"


def vet(module: bytes | str, seconds: float = SECONDS, read: Callable[[bytes | str], object] | None = None) -> None:
    """Reads `module` in a child and forgets it. Raises ParserCrashed where the child does not come back.

    `read` stands in for `opscope.compiler.ir.door.read`.
    """
    ending = run_in_fork(lambda: _read(module, read), seconds=seconds, address_space=MEMORY)
    if not ending.ok:
        words = {Cause.TIMEOUT: f"not back after {seconds:g} s", Cause.SIGNAL: signal_name(ending.code)}
        how = words.get(ending.cause, f"exit code {ending.code}")
        raise ParserCrashed(f"module: expected StableHLO that the parser comes back from, got {how}: parser-crashed")


def _read(module: bytes | str, read: Callable[[bytes | str], object] | None) -> None:
    if read is None:
        from opscope.compiler.ir.door import read
    read(module)
