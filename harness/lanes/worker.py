"""The child of a lane: takes ops through one backend, one at a time.

`opscope.harness.lanes.lane` starts `serve` in a child process. The first message holds the run's context, each later
one an op. The child imports the backend once. It answers with `stage` messages (which stage begins) and one `test`
message per op, each with the op's number; its output goes to the lane's log.
"""

from __future__ import annotations

import dataclasses
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from opscope.base import gc_pause, stored
from opscope.base.children import frames
from opscope.base.children.inside import Parent
from opscope.base.damage import Damaged
from opscope.harness.backends import registry
from opscope.harness.backends.base import Backend
from opscope.harness.cache import verdict_fingerprint
from opscope.harness.lanes.ladder import climb
from opscope.harness.lanes.worker_hygiene import WorkerState
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.records import OpRow
from opscope.harness.record.stages import Stage
from opscope.harness.verdict import tolerance

_REASON = 500
"""Longest reason for a record that cannot be sent, in characters."""


def serve(parent: Parent) -> None:
    """Loads the backend that the first message names, sends `ready`, then runs one op after another until the end."""
    first = parent.receive()
    if first is None:
        return
    context = RunContext.from_json(first["context"])
    try:
        with gc_pause.paused():
            backend = registry.load(context.backend)
            missing = backend.available()
            if missing:
                raise InputError(
                    f"--backend {context.backend}", "a backend that works here", "a missing requirement", missing
                )
            target = backend.target(context.options)
            _check_until(context, backend.stages)
            fingerprint = backend.fingerprint()
            _warm_up(backend)
            gc_pause.set_aside()  # what was imported stays, so no collection during an op needs to walk it
    except InputError as error:
        parent.send({"input_error": [error.where, error.expected, error.got, error.hint]})
        return
    except Exception as error:  # noqa: BLE001  any error of a backend's import is reported in one line
        traceback.print_exc()
        parent.send(
            {
                "input_error": [
                    f"--backend {context.backend}",
                    "a backend that can be loaded",
                    f"{type(error).__name__}: {error}",
                    "`opscope doctor`",
                ]
            }
        )
        return
    context = dataclasses.replace(context, card_type=target.card_type)
    parent.send(
        {
            "ready": {
                "card_type": target.card_type,
                "fingerprint": fingerprint,
                "stages": list(backend.stages),
                "data_format": target.float_format or "",
                "math_fidelity": target.math_fidelity,
                "verdict_fingerprint": f"{tolerance.VERSION}-{verdict_fingerprint.of_verdicts(context.backend)}",
                "lasting": backend.lasting,
                "compile_depths": dict(backend.compile_depths),
            }
        }
    )
    state = WorkerState(parent.descriptor)
    while (message := parent.receive()) is not None:
        answer = {"op": message["number"], **state.run(partial(_climbed, message, backend, context, parent, state))}
        answer["changed"] = [change.as_json() for change in state.changes()]
        try:
            parent.send(answer)
        except frames.ProtocolError as error:
            parent.send({**answer, "test": None, "unreadable": str(error)})


def _climbed(
    message: dict[str, Any], backend: Backend, context: RunContext, parent: Parent, state: WorkerState
) -> dict[str, Any]:
    """Climbs the op of a message. Returns its record as JSON, or why it has none."""
    number, export_dir = message["number"], Path(message["export_dir"])
    stored.expect(export_dir, {path: stored.FileMark(*mark) for path, mark in message.get("expected", {}).items()})
    try:
        test = climb(
            OpRow.model_validate_json(message["row"]),
            backend,
            context=context,
            export_dir=export_dir,
            attempt=message["attempt"],
            on_stage=lambda stage: parent.send({"op": number, "stage": stage}),
            before_compare=state.before_compare,
            before_explaining=lambda test: parent.send({"op": number, "explaining": test.model_dump_json()}),
        )
    except Damaged as error:
        if message.get("final_dir") and not export_dir.is_dir():  # the export has been completed, and so was moved
            return _climbed(
                {**message, "export_dir": message["final_dir"], "final_dir": None}, backend, context, parent, state
            )
        return {"damaged": [error.where, error.got]}
    try:
        return {"test": test.model_dump_json()}
    except ValueError as error:  # the backend has put something into it that is no text
        return {"test": None, "unreadable": str(error)[:_REASON]}


def _warm_up(backend: Backend) -> None:
    """Lets a backend do its one-time work before the first op is timed.

    An error does not stop the worker. The ops that it affects report it, each with its stage.
    """
    try:
        backend.warm_up()
    except Exception:  # noqa: BLE001  the compiler under test may raise anything
        traceback.print_exc()


def _check_until(context: RunContext, stages: tuple[Stage, ...]) -> None:
    stages_of_run = [Stage.SPLIT, *stages, Stage.COMPARE]
    until = context.options.until
    if until is not None and until not in stages_of_run:
        raise InputError(
            "--until",
            f"a stage of {backend_label(context.backend)}",
            f"'{until}'",
            closest(until, stages_of_run),
        )
