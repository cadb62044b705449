"""Reads StableHLO that nobody vouches for: a fork reads it first, so that a crash of the native parser is an error.

The fork does all that reading does (parse, verify, jaxlib's passes, conversion). Input is read again in this process
only if the fork survived it; if reading raised an error in the fork, it raises the same error here. The fork stays for
the next module. A child of opscope, such as a lane, reads at once: its parent records how it ends.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from opscope.base.children.ending import Cause, signal_name
from opscope.base.children.forks import WarmFork
from opscope.base.children.inside import is_child
from opscope.base.machine import memory_limit
from opscope.compiler.errors import CompilerInputError

SECONDS = 60.0
"""Time limit for reading one module; whole models of a hundred megabytes take a few seconds."""
_TEXT, _EVERY, _QUANTISED = 1, 2, 4
"""Bits of the byte before a module: whether it is text, each public function is read, quantised types are kept."""


class ParserCrashed(CompilerInputError):
    """The native parser did not survive the input: it got a signal, took too long or needed too much memory."""

    kind = "parser-crashed"


def read(module: bytes | str, every: bool = False, quantised: bool = False) -> ModuleOp:
    """Reads a module as `door.read` does. Raises what it raises, and ParserCrashed."""
    from opscope.compiler.ir import door

    if not is_child():
        vet(module, every, quantised=quantised)
    return door.read(module, every, quantised)


def rewritten(module: bytes | str, names: Sequence[str]) -> str:
    """Returns a module's text after passes on StableHLO, once a fork has survived reading it."""
    from opscope.compiler.ir import door

    if not is_child():
        vet(module, every=True, quantised=True)
    return door.rewritten(module, names)


def vet(
    module: bytes | str,
    every: bool = False,
    seconds: float = SECONDS,
    fork: WarmFork | None = None,
    quantised: bool = False,
) -> None:
    """Reads `module` in a fork (the process's own by default) and discards the result.

    Raises ParserCrashed if the fork does not survive, CompilerInputError for text that is no Unicode.
    """
    head = bytes([_TEXT * isinstance(module, str) | _EVERY * every | _QUANTISED * quantised])
    try:
        data = module.encode() if isinstance(module, str) else module
    except UnicodeEncodeError as error:
        got = f"the character {module[error.start]!a} at {error.start}"
        raise CompilerInputError(f"module: expected StableHLO text in Unicode, got {got}") from error
    ending = (fork or _fork()).run(head + data, seconds=seconds, memory=memory_limit(None))
    if not ending.ok:
        words = {
            Cause.TIMEOUT: f"not back after {seconds:g} s",
            Cause.SIGNAL: signal_name(ending.code),
            Cause.MEMORY: ending.text,
        }
        ended = words.get(ending.cause, f"exit code {ending.code}")
        raise ParserCrashed(f"module: expected StableHLO that the parser comes back from, got {ended}: parser-crashed")


@cache
def _fork() -> WarmFork:
    from opscope.compiler.ir import door

    door.prepare()  # once here, and not once in each fork
    fork = WarmFork(_read)
    atexit.register(fork.close)
    return fork


def _read(data: bytes) -> None:
    from opscope.compiler.ir import door

    module = data[1:]
    door.read(module.decode() if data[0] & _TEXT else module, bool(data[0] & _EVERY), bool(data[0] & _QUANTISED))
