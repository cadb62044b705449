"""The child of a lane: takes ops through one backend, one at a time, and says so in framed JSON.

Started by `opscope.harness.lanes.lane` as `python -P -m opscope.harness.lanes.worker FD PARENT_PID`; the first frame
holds the run's context, each later one an op. Imports the backend once. It answers with `stage` frames (which stage
begins) and one `test` frame per op; whatever it prints goes to the lane's log.
"""

from __future__ import annotations

import ctypes
import dataclasses
import faulthandler
import gc
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from opscope.harness.backends import registry
from opscope.harness.backends.base import Backend, BackendOptions
from opscope.harness.cache import verdict_fingerprint
from opscope.harness.lanes import frames
from opscope.harness.lanes.ladder import climb
from opscope.harness.lanes.worker_hygiene import Surroundings
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.records import OpRow
from opscope.harness.record.stages import Stage
from opscope.harness.verdict import tolerance

_PR_SET_PDEATHSIG = 1


class Link:
    """The worker's end of the socket: whole frames out, one frame at a time in."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._decoder = connection, frames.Decoder()
        self._waiting: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        """Writes one frame, whole."""
        self._connection.sendall(frames.encode(message))

    def receive(self) -> dict[str, Any] | None:
        """The next frame; None once the lane has closed its end."""
        while not self._waiting:
            data = self._connection.recv(1 << 16)
            if not data:
                return None
            self._waiting.extend(self._decoder.feed(data))
        return self._waiting.pop(0)


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent ends, however that ends; leaves at once if it already did."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(1)


def serve(link: Link) -> None:
    """Loads the backend that the first frame names, says `ready`, then answers op after op until the lane closes."""
    first = link.receive()
    if first is None:
        return
    context = RunContext(**first["context"])
    try:
        backend = registry.load(context.backend)
        missing = backend.available()
        if missing:
            raise InputError(f"--backend {context.backend}", "a usable backend", "one that lacks something", missing)
        options = BackendOptions(
            context.arch, context.data_format, context.math_fidelity, context.keep_ir, context.unsupported_types,
            context.optimization_level, context.amp_level,
        )  # fmt: skip
        target = backend.target(options)
        _check_until(context, backend.stages)
        fingerprint = backend.fingerprint()
        _warm_up(backend)
        # What was imported stays: no op pays for a collection that walks all of it.
        gc.collect()
        gc.freeze()
    except InputError as error:
        link.send({"input_error": [error.where, error.expected, error.got, error.hint]})
        return
    except Exception as error:  # noqa: BLE001  whatever a backend's import raises is told in one line
        traceback.print_exc()
        link.send(
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
    link.send(
        {
            "ready": {
                "card_type": target.card_type,
                "fingerprint": fingerprint,
                "stages": list(backend.stages),
                "data_format": target.float_format or "",
                "math_fidelity": target.math_fidelity,
                "judge": f"{tolerance.VERSION}-{verdict_fingerprint.judgement(context.backend)}",
                "lasting": bool(getattr(backend, "lasting", False)),
            }
        }
    )
    surroundings = Surroundings()
    while (message := link.receive()) is not None:
        test = climb(
            OpRow.model_validate_json(message["row"]),
            backend,
            options,
            context=context,
            export_dir=Path(message["export_dir"]),
            attempt=message["attempt"],
            on_stage=lambda stage: link.send({"stage": stage}),
        )
        surroundings.restore()
        link.send({"op": message["number"], "test": test.model_dump_json()})


def _warm_up(backend: Backend) -> None:
    """Whatever a backend does at its first op only, done before the clock of that op runs.

    A fault there is no reason not to start: the ops that it concerns will tell it, each with its stage.
    """
    try:
        getattr(backend, "warm_up", lambda: None)()
    except Exception:  # noqa: BLE001  the compiler under test may raise anything
        traceback.print_exc()


def _check_until(context: RunContext, stages: tuple[Stage, ...]) -> None:
    known = [Stage.SPLIT, *stages, Stage.COMPARE]
    if context.until is not None and context.until not in known:
        raise InputError(
            "--until",
            f"a stage of {backend_label(context.backend)}",
            f"'{context.until}'",
            closest(context.until, known),
        )


def main(arguments: list[str]) -> None:
    """Entry point: `opscope.harness.lanes.worker FD PARENT_PID`."""
    descriptor, parent = (int(word) for word in arguments)
    die_with_parent(parent)
    faulthandler.enable()
    with socket.socket(fileno=descriptor) as connection:
        serve(Link(connection))


if __name__ == "__main__":
    main(sys.argv[1:])
