"""A backend at a release that is not installed here: it works in a process that has that release in its environment.

The lane sees a backend like any other. Each stage is a message to that process, arrays lie in memory that both have.
What ends it ends the lane in the same way. Prepared ops, goldens and verdicts are those of what is installed here.
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import time
import traceback
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from opscope.base import shared_arrays
from opscope.base.children.child import CappedLog, Child
from opscope.base.children.ending import Cause, ChildEnded, Deadline, Ending
from opscope.base.children.frames import Message
from opscope.base.children.inside import Parent
from opscope.base.shared_block import MappedBlock, SharedBlock
from opscope.harness.backends import life
from opscope.harness.backends.base import Backend, BackendError, Declined, Job, StageCrashError, StageError, Target
from opscope.harness.cache.environments import Environment
from opscope.harness.record.errors import InputError
from opscope.harness.record.measures import MEASURES
from opscope.harness.record.one_failure import UNLOADED
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

LOAD_SECONDS = 100.0
"""How long a release may take to load: less than a lane may take to start, so that it costs itself alone."""
_TOKEN = "elsewhere"
"""Key of a job's state: what the other process knows it by."""
_PLAIN = ("ran_on", "compiled_by", "narrowed", "pipeline", *MEASURES)
"""What stages set on a job, of types that are JSON's own."""


class Elsewhere(Backend):
    """A backend of this project at a release: all that it declares, with its stages in another process."""

    def __init__(self, own: Backend, label: str, environment: Environment) -> None:
        """`own` is the backend as it is here, `label` its name with the release."""
        for declared in Backend.__annotations__:
            setattr(self, declared, getattr(own, declared))
        self.name, self.takes_apart = label, False
        self._own, self._environment = own, environment
        self._child: Child | None = None
        self._ready: Message = {}
        self._problem: StageError | None = None
        """Why this release does not work here, which is the verdict of each op: other backends of the run go on."""
        self._ours, self._theirs = SharedBlock(), MappedBlock()
        self._numbers = itertools.count(1)
        self._dropped: list[int] = []

    def target(self, options: ResultOptions) -> Target:
        """As of the backend that is here. Raises InputError if the options ask for what it has not."""
        return self._own.target(options)

    def available(self) -> str | None:
        """Always usable: its environment has been made."""
        return None

    def open(self, options: ResultOptions) -> None:
        """Starts the process and has it load the release. A release that fails at that fails with each op."""
        self.close()
        self._child = child = Child(f"{__name__}:serve", environment=self._environment.variables(), log=_Relay())
        try:
            child.send({"backend": self._own.name, "options": options.model_dump(mode="json")})
            self._ready = child.receive(Deadline(LOAD_SECONDS))
            reason = self._ready.get("refused", "")
            self._problem = StageError(f"{self.name}{UNLOADED}{reason}", reason) if reason else None
        except ChildEnded as ended:
            kind, text = ended.ending.kind, f"{self.name}{UNLOADED}{ended}"
            crashed = ended.ending.cause not in (Cause.RAISED, Cause.TIMEOUT)
            self._problem = StageCrashError(kind, text) if crashed else StageError(text, ended.ending.traceback)
        if self._problem is not None:
            self._problem.of_backend = True
            self.lasting, self._ready = False, {}
            self.close()

    def fingerprint(self, options: ResultOptions) -> str:
        """What the backend says of itself there, and a digest of what is installed there."""
        return f"{self._ready.get('fingerprint', self.name)} {self._environment.digest}"

    def versions(self) -> Mapping[str, str]:
        """The packages of the environment, and what the backend says there."""
        return {**self._environment.versions, **self._ready.get("versions", {})}

    def climb(self, stage: Stage, job: Job) -> None:
        """Has the other process take the job through the stage. Raises what the backend raises there."""
        if self._child is None and self._problem is None:
            self.open(job.options)
        if self._child is None or self._problem is not None:
            raise _again(self._problem or StageError(f"{self.name} has ended"))
        token, module = job.state.get(_TOKEN), b""
        new = token is None
        if new:
            token, module = _Token(next(self._numbers)), self._as_it_reads(job.module)
            weakref.finalize(token, self._dropped.append, token.number)
            job.state[_TOKEN] = token
        dropped, self._dropped[:] = list(self._dropped), []
        arrays = [np.frombuffer(module, np.uint8), *job.inputs, *itertools.chain(*job.mesh_inputs)]
        message = {
            "stage": stage,
            "number": token.number,
            "dropped": dropped,
            "new": new,
            "op_id": job.op_id,
            "results": [desc.model_dump(mode="json") for desc in job.results],
            "argument_types": job.argument_types,
            "ir_dir": None if job.ir_dir is None else str(job.ir_dir.absolute()),
            "devices": job.devices,
            "several_devices": job.several_devices,
            "of_device": [len(inputs) for inputs in job.mesh_inputs],
            "arrays": shared_arrays.write(arrays, self._ours),
        }
        self._child.send(message)
        try:
            answer = self._child.receive(Deadline(None))
            if "unread" in answer and not _unread(job.module):
                raise Declined(f"its StableHLO cannot be read by this release: {answer['unread']}")
            self._take(answer, job)
        except ChildEnded as ended:
            self.close()
            raise _end_like(ended.ending) from None

    def close(self) -> None:
        """Ends the process."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def check_mesh(self, options: ResultOptions) -> None:
        """As the backend that is here."""
        self._own.check_mesh(options)

    def board_for(self, devices: int, board: str) -> str:
        """As the backend that is here."""
        return self._own.board_for(devices, board)

    def _as_it_reads(self, module: bytes) -> bytes:
        """The module as the release reads it: as it is where its StableHLO is that of here, else as a portable
        artifact. Raises Declined for an op that its StableHLO lacks."""
        version = self._ready.get("stablehlo", "")
        if not version:
            return module
        from opscope.harness.prepare import mlir

        try:
            if version == mlir.stablehlo_version():
                return module
            return mlir.portable(mlir.load(module), version)
        except InputError:
            return module  # the release says itself what is wrong with it
        except ValueError as error:
            first = str(error).strip().partition("\n")[0]
            raise Declined(f"StableHLO {version}, which this release reads, lacks it: {first}") from error

    def _take(self, answer: Message, job: Job) -> None:
        """Puts what the process has answered into the job. Raises what the backend raised there."""
        if "unread" in answer:
            raise StageError(answer["unread"])
        if "declined" in answer:
            raise Declined(answer["declined"])
        if "broken" in answer:
            raise BackendError(*answer["broken"])
        if "crashed" in answer:
            raise StageCrashError(*answer["crashed"])
        if "refused" in answer:
            raise StageError(*answer["refused"])
        for name, value in answer["plain"].items():
            setattr(job, name, tuple(value) if isinstance(value, list) else value)
        job.input_descs = [TensorDesc(**desc) for desc in answer["input_descs"]]
        job.output_descs = [TensorDesc(**desc) for desc in answer["output_descs"]]
        job.kept_ir = Path(answer["kept_ir"]) if answer["kept_ir"] else None
        arrays = iter(shared_arrays.read(answer["arrays"], self._theirs))
        job.outputs = list(itertools.islice(arrays, answer["outputs"]))
        if answer["inputs_after"]:
            job.inputs_after = list(itertools.islice(arrays, answer["inputs_after"]))
        job.mesh_outputs = [list(itertools.islice(arrays, count)) for count in answer["mesh_outputs"]]


class _Token:
    """A job in the other process, which forgets it when nobody has the token any more."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Relay(CappedLog):
    """What the other process prints, which is this one's to print."""

    def write(self, data: bytes) -> None:
        """Writes all of it."""
        super().write(data)
        while data:
            data = data[os.write(2, data) :]


def _again(error: StageError) -> StageError:
    """An error of its own for each op."""
    if isinstance(error, StageCrashError):
        copy: StageError = StageCrashError(error.kind, error.message, error.diagnostic)
    else:
        copy = StageError(error.message, error.diagnostic)
    copy.of_backend = error.of_backend
    return copy


def _end_like(ending: Ending) -> StageCrashError:
    """Ends this process as the other one has ended, which the lane sees; an error for any other end."""
    if ending.cause is Cause.SIGNAL:
        faulthandler.disable()  # the stack that matters has been written
        if ending.code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(ending.code, signal.SIG_DFL)
        os.kill(os.getpid(), ending.code)
        time.sleep(1)
    if ending.cause is Cause.EXIT:
        os._exit(ending.code)
    return StageCrashError(ending.kind, ending.text, ending.traceback)


# --- the other process


def serve(parent: Parent) -> None:
    """Loads a backend of this project as it is in this process's environment, and takes jobs through its stages."""
    task = parent.task()
    name, options = task["backend"], ResultOptions(**task["options"])
    try:
        backend = life.load(name)
        opened = life.open_(name, backend, options)
    except InputError as error:
        parent.send({"refused": f"{error.got}: {error.hint}" if error.got == life.MISSING else error.got})
        return
    stablehlo = backend.reads_stablehlo()
    parent.send({"fingerprint": opened.fingerprint, "versions": opened.versions, "stablehlo": stablehlo})
    jobs = _Jobs(backend, options)
    while (message := parent.receive()) is not None:
        parent.send(jobs.climbed(message))


class _Jobs:
    """The jobs that the lane still has, with what the stages so far have left in their states."""

    def __init__(self, backend: Backend, options: ResultOptions) -> None:
        self._backend, self._options = backend, options
        self._jobs: dict[int, Job] = {}
        self._ours, self._theirs = SharedBlock(), MappedBlock()

    def climbed(self, message: Message) -> Message:
        """Takes the job of a message through its stage; the answer says what the stage has set on it, or raised."""
        for number in message["dropped"]:
            self._jobs.pop(number, None)
        module, *arrays = shared_arrays.read(message["arrays"], self._theirs)
        if message["new"]:
            job = self._new(message, module.tobytes())
            if self._backend.reads_stablehlo() and (reason := _unread(job.module)):
                return {"unread": reason}
            self._jobs[message["number"]] = job
        job, stage = self._jobs[message["number"]], Stage(message["stage"])
        parts = iter(arrays)
        if stage is self._backend.stages[-1]:  # it may run again: the compiled job stays what it is
            together = sum(message["of_device"])
            inputs = list(itertools.islice(parts, len(arrays) - together))
            devices = [list(itertools.islice(parts, count)) for count in message["of_device"]]
            job = replace(job, state=dict(job.state), inputs=inputs, mesh_inputs=devices)
            job.devices = tuple(message["devices"])
        try:
            self._backend.climb(stage, job)
        except Declined as reason:
            return {"declined": str(reason)}
        except BackendError as error:
            return {"broken": [error.got, error.expected, error.hint]}
        except StageCrashError as error:
            return {"crashed": [error.kind, error.message, error.diagnostic]}
        except StageError as error:
            files = dict(error.files)
            return {"refused": [error.message, error.diagnostic, error.suffix, files]}
        except Exception as error:  # noqa: BLE001  a library may raise anything
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return {"refused": [text, traceback.format_exc()]}
        return self._answer(job)

    def _new(self, message: Message, module: bytes) -> Job:
        results = tuple(TensorDesc(**desc) for desc in message["results"])
        ir_dir = message["ir_dir"] and Path(message["ir_dir"])
        job = Job(message["op_id"], module, [], self._options, results, tuple(message["argument_types"]), ir_dir)
        job.several_devices = message["several_devices"]
        return job

    def _answer(self, job: Job) -> Message:
        """What stages have set on a job; the inputs as they are after a run, as the lane compares them."""
        after = job.inputs if job.inputs_after is None else job.inputs_after
        arrays = [*job.outputs, *after, *itertools.chain(*job.mesh_outputs)]
        return {
            "plain": {name: getattr(job, name) for name in _PLAIN},
            "input_descs": [desc.model_dump(mode="json") for desc in job.input_descs],
            "output_descs": [desc.model_dump(mode="json") for desc in job.output_descs],
            "kept_ir": job.kept_ir and str(job.kept_ir),
            "outputs": len(job.outputs),
            "inputs_after": len(after),
            "mesh_outputs": [len(outputs) for outputs in job.mesh_outputs],
            "arrays": shared_arrays.write(arrays, self._ours),
        }


def _unread(module: bytes) -> str:
    from opscope.harness.prepare import mlir  # jaxlib, which not every backend needs

    return mlir.unread(module)
