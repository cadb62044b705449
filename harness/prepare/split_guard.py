"""Splits a module of unknown origin in a fork of this process, so that what its bytes do to the parser ends the fork.

The fork writes its answer, one line of JSON, to a temporary file; no byte of the module is parsed in this process.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

from opscope.base.children.call import call
from opscope.base.children.ending import Cause
from opscope.base.children.process import Local
from opscope.base.machine import memory_limit
from opscope.harness.prepare import mlir
from opscope.harness.prepare.allowance import SECONDS
from opscope.harness.prepare.program import SingleOp
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import TensorDesc, Use

_IN_BODY = re.compile(r"\.(?:cond|body|true|false|branch\d+)/")
"""In the path of a use: a region that is split too."""


def split_bytes(source: str | bytes | Path, seconds: float = SECONDS) -> list[SingleOp]:
    """The unique ops of a module in a file, text or bytes, in order of first use.

    The module may take as long as the preparation of a model.

    Raises InputError if the module is refused, or if the parser crashes, takes too long or needs too much memory.
    """
    mlir.context()  # made once here, and not once in each fork
    limit = memory_limit(None)
    with tempfile.TemporaryFile() as answer:
        ending = call(
            Local(lambda parent: _split(source, answer), (answer.fileno(),)), {}, seconds=seconds, memory=limit
        ).ending
        answer.seek(0)
        data = answer.read()
    where = str(source) if isinstance(source, Path) else "module"
    if not ending.ok or not data:
        limits = {Cause.TIMEOUT: f"no end within {seconds:g} s", Cause.MEMORY: ending.text}
        got = limits.get(ending.cause, f"the end of the parser ({ending.kind})")
        raise InputError(where, "StableHLO that can be split", got, "writing the file again")
    document = json.loads(data)
    if "error" in document:
        raise InputError(*document["error"])
    return [_op(op) for op in document["ops"]]


def of_entry(ops: Iterable[SingleOp]) -> list[SingleOp]:
    """Those that stand in the program itself, not only in the body of a loop or a branch of another of them."""
    return [op for op in ops if not all(_IN_BODY.search(use.path) for use in op.uses)]


def _split(source: str | bytes | Path, answer: IO[bytes]) -> None:
    """The fork: writes the ops, or the reason why there are none."""
    try:
        document: dict[str, Any] = {"ops": [_as_json(op) for op in split_module(source).ops.values()]}
    except InputError as error:
        document = {"error": [error.where, error.expected, error.got, error.hint]}
    except Exception as error:  # noqa: BLE001 - whatever a stranger's module leads to
        where = str(source) if isinstance(source, Path) else "module"
        got = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        document = {"error": [where, "StableHLO that can be split", got, ""]}
    answer.write(json.dumps(document).encode())
    answer.flush()


def _as_json(op: SingleOp) -> dict[str, Any]:
    values = {field.name: getattr(op, field.name) for field in fields(op)}
    lists = {name: [each.model_dump() for each in values[name]] for name in ("inputs", "outputs", "uses")}
    return {**values, **lists, "bytecode": op.bytecode.hex()}


def _op(document: dict[str, Any]) -> SingleOp:
    """The op of `_as_json`."""
    descs = {name: tuple(TensorDesc(**desc) for desc in document[name]) for name in ("inputs", "outputs")}
    uses = tuple(Use(**use) for use in document["uses"])
    return SingleOp(**{**document, **descs, "uses": uses, "bytecode": bytes.fromhex(document["bytecode"])})
