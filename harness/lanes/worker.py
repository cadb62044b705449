"""The child of a lane: takes ops through one backend, one at a time.

`opscope.harness.lanes.lane` starts `serve` in a child process. The first message holds the run's context, each later
one an op. The child imports the backend once. It marks which stage begins (`stage_marks.py`), and answers with one
`test` message per op, with the op's number; its output goes to the lane's log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from opscope.base import gc_pause, machine, reading, stored
from opscope.base.children import frames
from opscope.base.children.inside import Parent
from opscope.base.damage import Damaged
from opscope.harness.backends import life, registry
from opscope.harness.backends.base import Backend, BackendError
from opscope.harness.backends.unusable import Unusable
from opscope.harness.cache import verdict_fingerprint
from opscope.harness.lanes import scratch, worker_ahead
from opscope.harness.lanes.ladder import Listener, climb
from opscope.harness.lanes.stage_marks import Marks
from opscope.harness.lanes.worker_hygiene import WorkerState
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.records import OpRow
from opscope.harness.record.stages import Stage
from opscope.harness.verdict import tolerance

_LOAD_LOG = 1 << 16
"""So many bytes of what was written while a backend was loaded go to the log of its first lane."""
_REASON = 500
"""Longest reason for a record that cannot be sent, in characters."""


def serve(parent: Parent) -> None:
    """Loads the backend that the first message names, sends `ready`, then runs one op after another until the end."""
    first = parent.receive()
    if first is None:
        return
    context = RunContext.from_json(first["context"])
    name = context.backend
    try:
        with gc_pause.paused():
            backend = _loaded(name, first.get("load_log"), first.get("refused", ""))
            _check_until(context, backend.stages)
            digest = f"{tolerance.VERSION}-{verdict_fingerprint.of_verdicts(name)}"
            context, began_in = _in_own_folder(context, first.get("folder"))
            opened = life.open_(name, backend, context.options)
            gc_pause.set_aside()  # what was imported stays, so no collection during an op needs to walk it
    except InputError as error:
        parent.send({"input_error": _words(error)})
        return
    except Exception as error:  # noqa: BLE001  a backend's attributes may be anything
        traceback.print_exc()
        expected = "a backend that can be loaded"
        parent.send(
            {"input_error": [f"--backend {name}", expected, f"{type(error).__name__}: {error}", "`opscope doctor`"]}
        )
        return
    context = dataclasses.replace(context, card_type=opened.target.card_type)
    marks = Marks()
    closes = type(backend).close is not Backend.close
    parent.send({"ready": _ready(name, backend, opened, digest), "closes": closes, "marks": marks.place})
    state = WorkerState(parent.descriptor)
    while (message := parent.receive()) is not None and "close" not in message:
        message["export_dir"] = str(Path(began_in, message["export_dir"]))
        answer = {
            "op": message["number"],
            **state.run(partial(_climbed, message, backend, context, parent, state, marks)),
        }
        if (report := reading.report()) is not None:
            answer["read"] = report
        answer["changed"] = [change.as_json() for change in state.changes()]
        try:
            parent.send(answer)
        except frames.ProtocolError as error:
            parent.send({**answer, "text": None, "unreadable": str(error)})
    life.close(backend)
    marks.close()


def _ready(name: str, backend: Backend, opened: life.Opened, digest: str) -> dict[str, Any]:
    """What the run hears of a backend that is open. `digest`: of what verdicts on it rest on."""
    target = opened.target
    return {
        "card_type": target.card_type,
        "fingerprint": opened.fingerprint,
        "stages": list(backend.stages),
        "data_format": target.float_format or "",
        "math_fidelity": target.math_fidelity,
        "verdict_fingerprint": digest,
        "lasting": backend.lasting and _names_no_commit(name, backend),
        "compile_depths": dict(backend.compile_depths),
        "stage_files": {str(stage): pattern for stage, pattern in backend.stage_files.items()},
        "writes_diagnostics": backend.writes_diagnostics,
        "versions": opened.versions,
        "commit": opened.commit,
        "blas": machine.blas_kernel(),
    }


def _names_no_commit(name: str, backend: Backend) -> bool:
    """Whether a kept report of a backend says all of its commit: it has none, or is asked for it anew."""
    return registry.command_file(name) is not None or inspect.getattr_static(backend, "revision", "") == ""


def _loaded(name: str, log: str | None, refused: str = "") -> Backend:
    """The backend, as the process has loaded it of which this one is a fork, or else loaded here.

    What was written while it was loaded is in the file `log`, and goes to the log of this lane. One that was `refused`
    is not loaded. Raises InputError.
    """
    if refused:
        return Unusable(registry.load(name), backend_label(name), refused)
    if log is not None:
        with contextlib.suppress(OSError):
            print(Path(log).read_bytes()[-_LOAD_LOG:].decode(errors="replace"), end="", file=sys.stderr, flush=True)
    ready = worker_ahead.loaded.get(registry.absolute(name))
    if ready is None:
        return life.load(name)
    if ready.backend is None:
        assert ready.problem is not None
        raise ready.problem
    return ready.backend


def _in_own_folder(context: RunContext, folder: str | None) -> tuple[RunContext, str]:
    """Has this process work in a folder of its own, where there is one. Returns the context, with paths that can be
    found from there, and the folder in which it began."""
    began_in = os.getcwd()  # noqa: PTH109  joined with texts
    if folder is not None:
        context = dataclasses.replace(context, run_dir=str(Path(began_in, context.run_dir)))
        tempfile.tempdir = None
        os.chdir(Path(folder, scratch.WORKING))
    return context, began_in


def _words(error: InputError) -> list[str]:
    """An error as a message holds it."""
    return [error.where, error.expected, error.got, error.hint]


def _climbed(
    message: dict[str, Any], backend: Backend, context: RunContext, parent: Parent, state: WorkerState, marks: Marks
) -> dict[str, Any]:
    """Climbs the op of a message. Returns its record as JSON, or why it has none."""
    number, export_dir = message["number"], Path(message["export_dir"])
    marks.begin(number)
    listener = Listener(
        lambda stage: None if parent.unread() else marks.enter(stage, time.monotonic()),
        state.before_compare,
        lambda test: parent.send({"op": number, "explaining": test.model_dump_json()}),
    )
    stored.expect(export_dir, {path: stored.FileMark(*mark) for path, mark in message.get("expected", {}).items()})
    try:
        test = climb(
            OpRow.model_validate_json(message["text"]),
            backend,
            context=context,
            export_dir=export_dir,
            attempt=message["attempt"],
            listener=listener,
        )
    except Damaged as error:
        if message.get("final_dir") and not export_dir.is_dir():  # the export has been completed, and so was moved
            return _climbed(
                {**message, "export_dir": message["final_dir"], "final_dir": None},
                backend,
                context,
                parent,
                state,
                marks,
            )
        return {"damaged": [error.where, error.got]}
    except BackendError as error:
        return {"input_error": _words(life.refused(context.backend, error))}
    try:
        return {"text": test.model_dump_json()}
    except ValueError as error:  # the backend has put something into it that is no text
        return {"text": None, "unreadable": str(error)[:_REASON]}


def _check_until(context: RunContext, stages: tuple[Stage, ...]) -> None:
    stages_of_run = [Stage.SPLIT, *stages, Stage.COMPARE]
    until = context.options.until
    if until is not None and until not in stages_of_run:
        raise InputError(
            "--until", f"a stage of {backend_label(context.backend)}", f"'{until}'", closest(until, stages_of_run)
        )
