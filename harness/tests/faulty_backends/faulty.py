"""A backend with real faults, for the tests of lane, worker and ladder: what it does is in the op's parameters."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from opscope.harness.backends.base import Job, StageError, Target
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage


def _first(job: Job, after: str = "") -> bool:
    """Whether this op was not asked for before, by whichever child; with a word, not since the first time."""
    mark = Path(os.environ["FAULTY_MARKS"]) / f"{job.op_id}{after}"
    if mark.exists():
        return False
    mark.touch()
    return True


def _parent() -> Any:
    """The worker's own connection to its lane."""
    frame = sys._getframe()
    while type(frame.f_locals.get("parent")).__name__ != "Parent":  # of `__main__`, as the child runs it
        frame = frame.f_back
    return frame.f_locals["parent"]


class Faulty:
    """Adds its inputs, unless the module's text names a fault: `<stage>:<fault>`."""

    name = "faulty"
    stages = (Stage.COMPILE, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        return Target("host", None, "exact")

    def fingerprint(self) -> str:
        return "faulty-1"

    def available(self) -> str | None:
        return None

    def climb(self, stage: Stage, job: Job) -> None:
        where, _, fault = job.module.decode().partition(":")
        if where == stage:
            getattr(self, fault.replace("-", "_"))(job)
        if stage is Stage.RUN:
            job.ran_on = "host"
            if not job.outputs:
                job.outputs = [np.sum(job.inputs, axis=0, dtype=job.inputs[0].dtype)]
            job.output_descs = [TensorDesc(shape=job.outputs[0].shape, data_type="f32", buffer_type="l1")]

    def wrong(self, job: Job) -> None:
        job.outputs = [job.inputs[0] - job.inputs[1]]

    def varying(self, job: Job) -> None:
        """Wrong in every process, in each by another number."""
        job.outputs = [job.inputs[0] - job.inputs[1] + job.inputs[0].dtype.type(os.getpid())]

    def refuse(self, job: Job) -> None:
        message = f"no kernel for {job.op_id} of tensor<4x{os.getpid()}xf32>"
        raise StageError(message, "line 1\nline 2", ".mlir", files={".map.svg": "<svg/>"})

    def bug(self, job: Job) -> None:
        raise KeyError("a bug in the backend")

    def scribble(self, job: Job) -> None:
        for array in job.inputs:
            array[...] = 7
        job.outputs = [np.full_like(job.inputs[0], 0)]

    def sigkill(self, job: Job) -> None:
        print("about to die", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def sigsegv(self, job: Job) -> None:
        ctypes.string_at(0)

    def once(self, job: Job) -> None:
        """Refuses the first time that it is asked for this op."""
        if _first(job):
            self.refuse(job)

    def other(self, job: Job) -> None:
        """Refuses each time, the second time for another reason."""
        raise StageError("no kernel" if _first(job) else "no room")

    def killed_once(self, job: Job) -> None:
        """Killed from outside the first time, as a machine without memory does."""
        if _first(job):
            self.sigkill(job)

    def killed_twice(self, job: Job) -> None:
        """Killed from outside the first two times: the lane tries once more, and then believes it."""
        if _first(job) or _first(job, " again"):
            self.sigkill(job)

    def abort(self, job: Job) -> None:
        ctypes.CDLL(None).abort()

    def sigstop(self, job: Job) -> None:
        """Stops the whole group, as a debugger or a shell's Ctrl-Z would."""
        print("about to stop", flush=True)
        os.killpg(os.getpgid(0), signal.SIGSTOP)

    def exit_0(self, job: Job) -> None:
        os._exit(0)

    def sys_exit(self, job: Job) -> None:
        sys.exit(3)

    def hang(self, job: Job) -> None:
        Path(os.environ.get("FAULTY_MARK", os.devnull)).write_text("hanging")
        while True:
            time.sleep(1)

    def hang_deaf(self, job: Job) -> None:
        """Hangs in native code with signals ignored, a child of its own beside it."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            time.sleep(600)
        ctypes.CDLL(None).sleep(600)

    def garbage(self, job: Job) -> None:
        os.write(int(sys.argv[1]), b"not a frame at all")
        time.sleep(60)

    def early_reply(self, job: Job) -> None:
        """A record that is whole, of an op that is not in flight."""
        from opscope.harness.record.optest import RunContext, build_test, now
        from opscope.harness.record.records import OpRow
        from opscope.harness.record.stages import Status

        other = OpRow(op_id="other", op_name="stablehlo.add", module=None)
        test = build_test(other, RunContext("r", "run"), status=Status.SUCCESS, started=now())
        answer = {"op": 999, "test": test.model_dump_json(), "changed": []}
        _parent().send(answer)

    def spoil_memory(self, job: Job) -> None:
        """Writes to all memory that it shares, as by a wrong descriptor, and cuts it off."""
        for place in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(place.readlink()).startswith("/memfd:"):
                    with contextlib.suppress(OSError):
                        os.pwrite(int(place.name), b"rubbish" * 100, 0)
                    os.ftruncate(int(place.name), 0)
        self.abort(job)

    def close_pipe_and_go_on(self, job: Job) -> None:
        """Closes the socket by its number, as who closes all descriptors does."""
        os.close(_parent().descriptor)

    def close_pipe(self, job: Job) -> None:
        socket.socket(fileno=int(sys.argv[1])).close()
        time.sleep(60)

    def memory(self, job: Job) -> None:
        kept = []
        while True:
            kept.append(np.ones(32 << 20, np.uint8))
            time.sleep(0.01)

    def threads(self, job: Job) -> None:
        stop = threading.Event()
        for _ in range(40):
            threading.Thread(target=stop.wait, daemon=True).start()
        time.sleep(60)

    def many_threads(self, job: Job) -> None:
        """More than any lane allows."""
        threading.stack_size(64 << 10)
        for _ in range(600):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        time.sleep(60)

    def flood(self, job: Job) -> None:
        """100 MB of output, some of it at once."""
        for _ in range(100):
            os.write(1, b"y" * 999_999 + b"\n")

    def close_output(self, job: Job) -> None:
        """Closes what the log is read from: whatever is printed later goes nowhere."""
        os.close(1)
        os.close(2)

    def leave_memory(self, job: Job) -> None:
        """A leak within the limit, which the next op would go beyond."""
        Faulty.leaked = np.ones(200 << 20, np.uint8)

    def leave_timer(self, job: Job) -> None:
        """An alarm that goes off while a later op runs, in a folder that is not the run's, with stdout shut."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        os.chdir("/")
        sys.stdout.close()

    def speak(self, job: Job) -> None:
        print("said in", Path.cwd(), flush=True)
        time.sleep(0.2)
        job.outputs = [np.sum(job.inputs, axis=0, dtype=job.inputs[0].dtype)]

    def take_memory(self, job: Job) -> None:
        kept = np.ones(100 << 20, np.uint8)
        time.sleep(0.2)
        assert kept[-1]

    def stray(self, job: Job) -> None:
        """A child in a session of its own, which the group's end does not reach, and then a hang."""
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"],
            start_new_session=True,
            env={**os.environ, "STRAY": os.environ.get("FAULTY_MARK", "")},
        )
        Path(os.environ.get("FAULTY_MARK", os.devnull)).write_text("hanging")
        time.sleep(600)

    def chatter(self, job: Job) -> None:
        for _ in range(200):
            os.write(1, b"x" * 99_999 + b"\n")
