"""Reads one model of a StableHLO file as a sweep does, for commands that take a FILE: `opscope compile`.

The file is read in a fork, so that what its bytes do to the parser ends the fork; it writes its answer to a temporary
file.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import IO

from opscope.base import damage
from opscope.base.children.call import call
from opscope.base.children.ending import Cause
from opscope.base.children.process import Local
from opscope.base.machine import memory_limit
from opscope.harness.prepare import file_models
from opscope.harness.record.errors import InputError
from opscope.harness.record.option_types import sizes_of
from opscope.harness.record.signature import shorten

MOST_LISTED = 6
"""Models that an error names."""
_MODULE, _ERROR = b"M", b"E"
"""First byte of the fork's answer; a module has a line for the user before it, which ends in a zero."""


def read(word: str, shape: str | None = None) -> bytes:
    """StableHLO bytecode of the model that `word` names, a file or `FILE.mlir:function`, with blocks that branch as
    `stablehlo.if`, and with the sizes of `shape` (as `--shape` takes them) for its open dimensions.

    Raises InputError for anything else, for a file of several models without a name, and if the parser crashes, takes
    too long or needs too much memory.
    """
    from opscope.harness.prepare import mlir

    try:
        sizes = sizes_of(shape) if shape else None
    except InputError as error:
        raise InputError("--shape", error.expected, error.got, error.hint) from None
    path, model = file_models.file_and_model(word) or (Path(word), "")
    mlir.context()  # made once here, and not once in each fork
    seconds = file_models.reading_seconds(path)
    with tempfile.TemporaryFile() as answer:
        local = Local(lambda parent: _read(path, model, sizes, answer), (answer.fileno(),))
        outcome = call(local, {}, seconds=seconds, memory=memory_limit(None))
        answer.seek(0)
        kind, data = answer.read(1), answer.read()
    if not outcome.ending.ok or not kind:
        limits = {Cause.TIMEOUT: f"no end within {seconds:.0f} s", Cause.MEMORY: outcome.ending.text}
        got = limits.get(outcome.ending.cause, f"the end of the parser ({outcome.ending.kind})")
        raise InputError(str(path), "StableHLO that the parser comes back from", got, "writing the file again")
    if kind == _ERROR:
        raise InputError(*json.loads(data))
    line, _, module = data.partition(b"\0")
    if line:
        damage.say(line.decode())
    return module


def _read(path: Path, model: str, shape: str | None, answer: IO[bytes]) -> None:
    """The fork: writes the module, or the parts of an InputError."""
    try:
        head, data = _MODULE, _bytecode(path, model, shape)
    except InputError as error:
        head, data = _ERROR, json.dumps([error.where, error.expected, error.got, error.hint]).encode()
    except Exception as error:  # noqa: BLE001 - whatever a stranger's module leads to
        got = shorten(f"{type(error).__name__}: {error}", 200)
        head, data = _ERROR, json.dumps([str(path), "StableHLO that can be read", got, ""]).encode()
    answer.write(head + data)
    answer.flush()


def _bytecode(path: Path, model: str, shape: str | None) -> bytes:
    """A line for the user, if there is one, and the module."""
    from opscope.harness.prepare import mlir
    from opscope.harness.prepare.export import exported_module
    from opscope.harness.prepare.mlir import file_models as parsed

    module = mlir.load(path)
    if not model and len(names := parsed.names(module)) > 1 and "main" not in names:
        listed = ", ".join(names[:MOST_LISTED]) + (", ..." if len(names) > MOST_LISTED else "")
        raise InputError(str(path), "a file of one model, or the name of one", listed, f"{path}:{names[0]}")
    lines: list[str] = []
    bytecode = exported_module(module, path, model, shape, lines.append).bytecode
    return "".join(lines).encode() + b"\0" + bytecode
