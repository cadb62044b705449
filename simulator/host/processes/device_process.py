"""The process of a device, as its program sees it: it runs what the device has compiled (`device_child`)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np

from opscope.base import shared_arrays
from opscope.base.children.child import Child
from opscope.base.children.ending import Cause, ChildEnded, Deadline
from opscope.base.shared_block import MappedBlock, SharedBlock
from opscope.simulator.host.errors import DeviceDied, PyBudaError
from opscope.simulator.host.hosted_program import HostedProgram, Sendable, XlaProgram
from opscope.simulator.host.processes.signs_of_life import VARIABLE, answer_of, silence_allowed
from opscope.simulator.profile import Profile


class _Sent:
    """A program that the process has, and the arrays that were sent as its values."""

    def __init__(self, number: int, program: Sendable) -> None:
        self.number, self.program = number, program
        self.values = dict(program.values)


class DeviceProcess:
    """A child that is started at once and ended by `close`, or with this process. One thread at a time talks to it."""

    def __init__(self, device: str) -> None:
        """`device` is the device's name, for errors. Raises PyBudaError if no process can be started."""
        self.device = device
        self._silence = silence_allowed()
        try:
            self._child = Child("opscope.simulator.host.processes.device_child:serve")
        except OSError as error:
            raise PyBudaError(f"{device}: expected a process of its own, got: {error}; try _sequential=True") from error
        self.pid = self._child.pid
        self._ours, self._theirs = SharedBlock(), MappedBlock()
        self._sent: dict[int, _Sent] = {}
        self._lock = threading.RLock()

    def run(self, program: Sendable, inputs: Sequence[np.ndarray], profile: bool = False) -> list[np.ndarray]:
        """Returns what the program computes, with the values that its arguments have now.

        `profile`: also sets the program's profile. Raises DeviceDied, or PyBudaError if the device refuses it.
        """
        with self._lock:
            sent = self._sent.get(id(program)) or self._load(program)
            now = program.values
            if changed := [name for name, value in now.items() if sent.values.get(name) is not value]:
                self._ask(program, "update", [now[name] for name in changed], program=sent.number, names=changed)
                sent.values = dict(now)
            answer = self._ask(program, "run", inputs, program=sent.number, profile=profile)
            if answer["profile"] is not None:
                program.profile = msgspec.convert(answer["profile"], Profile)
            return shared_arrays.read(answer["tensors"], self._theirs)

    def forget(self) -> None:
        """Has the process forget the programs that it has."""
        with self._lock:
            if self._sent:
                self._sent.clear()
                self._ask(None, "forget", ())

    def check(self) -> None:
        """Raises DeviceDied if the process has ended."""
        with self._lock:
            if not self._child.wait(0):
                try:
                    self._child.receive(Deadline(1))
                except ChildEnded as ended:
                    raise self._died(ended) from None

    def close(self) -> None:
        """Ends the process, whatever it does."""
        with self._lock:
            self._child.kill()
            self._child.log.close()
            self._ours.close()
            self._theirs.close()

    def _load(self, program: Sendable) -> _Sent:
        hosted, values = program.hosted, dict(program.values)
        described = {field.name: getattr(hosted, field.name) for field in fields(hosted)}
        binaries = {name: np.frombuffer(value, np.uint8) for name, value in described.items() if type(value) is bytes}
        others = {name: msgspec.to_builtins(value) for name, value in described.items() if name not in binaries}
        answer = self._ask(
            program,
            "load",
            [*values.values(), *binaries.values()],
            kind=_kind(hosted),
            names=list(values),
            program=others,
            binaries=list(binaries),
        )
        self._sent[id(program)] = sent = _Sent(answer["program"], program)
        return sent

    def _ask(self, asked: Sendable | None, do: str, arrays: Sequence[np.ndarray], **rest: Any) -> dict[str, Any]:
        """Sends a command and returns the answer to it."""
        self._child.send({"do": do, "tensors": shared_arrays.write(arrays, self._ours), **rest})
        try:
            answer = answer_of(self._child, self._silence)
        except ChildEnded as ended:
            raise self._died(ended) from None
        if "refused" in answer:
            name = asked.hosted.name if asked is not None else self.device
            raise PyBudaError(f"{name}: {answer['refused']}")
        return answer

    def _died(self, ended: ChildEnded) -> DeviceDied:
        how = ended.ending
        if how.cause is Cause.TIMEOUT:
            text = f"{self.device}: expected a sign of its process, {self.pid}, within {self._silence:g} s, got none"
            return DeviceDied(f"{text}; it was ended; try to run it again, or a larger {VARIABLE}", self.device, "hang")
        return DeviceDied(
            f"{self.device}: expected its process, {self.pid}, to run, got: {how.text}; try to run it again",
            self.device,
            how.kind,
        )


def _kind(hosted: HostedProgram | XlaProgram) -> str:
    return type(hosted).__name__
