"""StableHLO's interpreter, but for ops that spoil their worker: `SPOIL` names a JSON file, op id -> way.

Each public method is one way. It acts in the stage `run`, after the results are computed. The ways whose names begin
with `lie` also return wrong numbers and try to have them judged right. `ci/attacks/spoiling_backends.py` runs them.
"""

from __future__ import annotations

import _thread
import atexit
import builtins
import ctypes
import decimal
import faulthandler
import gc
import json
import locale
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from opscope.harness.backends.base import Job, StageError
from opscope.harness.backends.stablehlo_interpreter import StablehloInterpreter
from opscope.harness.record.stages import Stage, Status

LIBC = ctypes.CDLL(None)


def _frame(name: str) -> Any:
    """The value of a local variable of a function that called this one."""
    frame: Any = sys._getframe()
    while name not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals[name]


def _limit(number: int, value: int) -> None:
    resource.setrlimit(number, (value, resource.getrlimit(number)[1]))


def _later(function: Any, seconds: float = 0.05) -> None:
    """Calls a function again and again in a thread that stays."""

    def go() -> None:
        while True:
            time.sleep(seconds)
            function()

    threading.Thread(target=go, daemon=True).start()


def _wrong(job: Job) -> None:
    job.outputs = [np.full_like(output, 3) for output in job.outputs]


class Ways:
    """The ways."""

    # --- Python
    def clears_sys_path(self, job: Job) -> None:
        sys.path.clear()

    def replaces_sys_path(self, job: Job) -> None:
        sys.path = ["/nowhere"]

    def replaces_a_module(self, job: Job) -> None:
        sys.modules["numpy"] = types.ModuleType("numpy")

    def removes_a_module(self, job: Job) -> None:
        del sys.modules["opscope.harness.verdict.ties"]

    def adds_a_finder(self, job: Job) -> None:
        class Refuses:
            def find_spec(self, name: str, *_: object) -> None:
                raise ImportError(name)

        sys.meta_path.insert(0, Refuses())

    def clears_path_hooks(self, job: Job) -> None:
        sys.path_hooks.clear()

    def replaces_len(self, job: Job) -> None:
        builtins.len = lambda _: 1

    def removes_open(self, job: Job) -> None:
        del builtins.open

    def traces(self, job: Job) -> None:
        def tracer(*_: object) -> None:
            raise RuntimeError("traced")

        sys.settrace(tracer)

    def profiles(self, job: Job) -> None:
        sys.setprofile(lambda *_: time.sleep(0.0001))

    def limits_recursion(self, job: Job) -> None:
        sys.setrecursionlimit(60)

    def sets_the_switch_interval(self, job: Job) -> None:
        sys.setswitchinterval(10)

    def replaces_hooks(self, job: Job) -> None:
        sys.excepthook = sys.unraisablehook = lambda *_: os._exit(5)

    def turns_off_collection(self, job: Job) -> None:
        gc.disable()
        gc.set_threshold(1)

    def hooks_the_collector(self, job: Job) -> None:
        gc.callbacks.append(lambda *_: time.sleep(0.01))

    def makes_warnings_errors(self, job: Job) -> None:
        warnings.simplefilter("error")

    def disables_the_fault_handler(self, job: Job) -> None:
        faulthandler.disable()

    def dumps_and_exits_later(self, job: Job) -> None:
        faulthandler.dump_traceback_later(0.2, exit=True)

    def exits_with_a_hook(self, job: Job) -> None:
        atexit.register(os._exit, 9)

    def limits_integers(self, job: Job) -> None:
        sys.set_int_max_str_digits(640)

    # --- numbers
    def flushes_to_zero(self, job: Job) -> None:
        state = ctypes.create_string_buffer(64)
        libm = ctypes.CDLL("libm.so.6")
        libm.fegetenv(state)
        bits = struct.unpack_from("<I", state, 28)[0]
        struct.pack_into("<I", state, 28, bits | 0x8040)  # FTZ and DAZ of x86-64
        libm.fesetenv(state)

    def rounds_up(self, job: Job) -> None:
        ctypes.CDLL("libm.so.6").fesetround(0x800)

    def raises_on_rounding(self, job: Job) -> None:
        np.seterr(all="raise")

    def sets_decimal(self, job: Job) -> None:
        decimal.getcontext().prec = 1

    def seeds(self, job: Job) -> None:
        random.seed(int(job.op_id, 16))
        np.random.seed(7)

    def takes_many_blas_threads(self, job: Job) -> None:
        libraries = [
            line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "openblas" in line
        ]
        ctypes.CDLL(libraries[0]).scipy_openblas_set_num_threads64_(2)

    def sets_the_locale(self, job: Job) -> None:
        locale.setlocale(locale.LC_ALL, "C")
        os.environ["LC_ALL"] = "tr_TR"

    def turns_on_x64(self, job: Job) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)

    # --- code
    def replaces_numpy_sum(self, job: Job) -> None:
        np.sum = lambda *_, **__: 0

    def replaces_numpy_asarray(self, job: Job) -> None:
        np.asarray = lambda *_, **__: np.zeros(1)

    def stops_time(self, job: Job) -> None:
        time.monotonic = time.perf_counter = lambda: 0.0

    def replaces_json(self, job: Job) -> None:
        json.dumps = lambda *_, **__: "{}"

    def replaces_write(self, job: Job) -> None:
        os.write = os.open = lambda *_: 0

    def replaces_the_ladder(self, job: Job) -> None:
        from opscope.harness.lanes import worker

        worker.climb = lambda *_, **__: None

    def empties_the_inputs(self, job: Job) -> None:
        from opscope.harness.lanes import ladder

        ladder.row_inputs = lambda *_: []

    def lie_by_comparing(self, job: Job) -> None:
        from opscope.harness.lanes import ladder
        from opscope.harness.record.records import ResultCheck

        right = ResultCheck(passed=True, pcc=1.0, relative_l2=0.0, max_abs=0.0, tolerance="exact")
        ladder.compare = lambda golden, *_, **__: [right for _ in golden]
        _wrong(job)

    def lie_by_other_code(self, job: Job) -> None:
        from opscope.harness.record.records import ResultCheck
        from opscope.harness.verdict import check

        check.ResultCheck = lambda **fields: ResultCheck(**{**fields, "passed": True, "reason": ""})
        _wrong(job)

    def lie_by_the_body(self, job: Job) -> None:
        from opscope.harness.lanes import ladder

        def compared(state: Any, job: Any, export_dir: Any) -> Any:
            return state.ended(Status.SUCCESS)

        ladder._compared.__code__ = compared.__code__
        _wrong(job)

    def lie_by_tolerance(self, job: Job) -> None:
        from opscope.harness.verdict import check

        check.MOST = 0.0
        check.BULK_MARGIN = 1e9
        _wrong(job)

    def lie_by_numpy(self, job: Job) -> None:
        np.abs = np.absolute = lambda array, *_, **__: np.zeros_like(array)
        _wrong(job)

    # --- the process
    def changes_folder(self, job: Job) -> None:
        os.chdir("/")

    def stands_in_a_removed_folder(self, job: Job) -> None:
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        shutil.rmtree(folder)

    def clears_the_environment(self, job: Job) -> None:
        os.environ.clear()

    def sets_a_variable(self, job: Job) -> None:
        os.environ["TMPDIR"] = "/nowhere"

    def replaces_the_environment(self, job: Job) -> None:
        os.environ = {}  # noqa: B003

    def sets_the_mask(self, job: Job) -> None:
        os.umask(0o777)

    def limits_files(self, job: Job) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))

    def limits_memory(self, job: Job) -> None:
        _limit(resource.RLIMIT_AS, 1 << 20)

    def limits_file_size(self, job: Job) -> None:
        _limit(resource.RLIMIT_FSIZE, 0)

    def limits_the_processor(self, job: Job) -> None:
        _limit(resource.RLIMIT_CPU, 1)

    def limits_the_stack(self, job: Job) -> None:
        _limit(resource.RLIMIT_STACK, 1 << 16)

    def limits_processes(self, job: Job) -> None:
        _limit(resource.RLIMIT_NPROC, 0)

    def is_nice(self, job: Job) -> None:
        os.nice(19)

    def takes_one_processor(self, job: Job) -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))} if os.cpu_count() != 1 else set())

    def becomes_nobody(self, job: Job) -> None:
        os.setuid(65534)

    def changes_the_root(self, job: Job) -> None:
        os.chroot("/tmp")

    def survives_its_lane(self, job: Job) -> None:
        LIBC.prctl(1, 0, 0, 0, 0)

    def lets_daemons_go(self, job: Job) -> None:
        LIBC.prctl(36, 0, 0, 0, 0)

    # --- signals
    def ignores_children(self, job: Job) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def blocks_signals(self, job: Job) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))

    def handles_termination(self, job: Job) -> None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(4))

    def leaves_an_alarm(self, job: Job) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.2)

    def leaves_a_timer(self, job: Job) -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, 0.1)

    def leaves_a_timer_of_the_system(self, job: Job) -> None:
        timer = ctypes.c_void_p()
        LIBC.timer_create(1, None, ctypes.byref(timer))
        LIBC.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 200_000_000), None)

    def stops_itself(self, job: Job) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    # --- files
    def closes_the_connection(self, job: Job) -> None:
        os.close(_frame("parent").descriptor)

    def closes_all_files(self, job: Job) -> None:
        os.closerange(0, 256)

    def turns_the_connection(self, job: Job) -> None:
        os.dup2(os.open(os.devnull, os.O_RDWR), _frame("parent").descriptor)

    def does_not_block(self, job: Job) -> None:
        for descriptor in (1, 2, _frame("parent").descriptor):
            os.set_blocking(descriptor, False)

    def leaves_files_open(self, job: Job) -> None:
        Ways.held = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]

    def replaces_stdout(self, job: Job) -> None:
        sys.stdout = None

    def closes_stderr(self, job: Job) -> None:
        sys.stderr.close()

    def redirects_output(self, job: Job) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def floods_output(self, job: Job) -> None:
        for _ in range(20):
            os.write(1, b"y" * 999_999 + b"\n")
            os.write(2, b"\xff\x00\x1b[31m" * 1000)

    def fills_its_folder(self, job: Job) -> None:
        for index in range(50):
            Path(f"left-{job.op_id}-{index}").write_bytes(b"x" * 100_000)

    def removes_its_artifacts(self, job: Job) -> None:
        shutil.rmtree(Path(_frame("context").run_dir) / "artifacts", ignore_errors=True)

    def writes_to_others_artifacts(self, job: Job) -> None:
        folder = Path(_frame("context").run_dir) / "artifacts"
        for other in json.loads(Path(os.environ["SPOIL"]).read_text()):
            (folder / other).mkdir(parents=True, exist_ok=True)
            (folder / other / "run.txt").write_text("not yours")

    def has_a_file_for_a_folder(self, job: Job) -> None:
        folder = Path(_frame("context").run_dir) / "artifacts" / job.op_id
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        folder.write_text("a file")
        raise StageError("refused", "long text")

    # --- what goes on afterwards
    def leaves_a_thread_that_changes_things(self, job: Job) -> None:
        _later(lambda: (sys.path.clear(), os.environ.update(HOME="/nowhere"), os.chdir("/")))

    def leaves_many_threads(self, job: Job) -> None:
        for _ in range(100):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

    def leaves_a_raw_thread(self, job: Job) -> None:
        _thread.start_new_thread(lambda: (time.sleep(0.1), os._exit(6)), ())

    def leaves_a_process(self, job: Job) -> None:
        Ways.process = subprocess.Popen(["sleep", "300"])

    def leaves_a_daemon(self, job: Job) -> None:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(300)
            os._exit(0)

    def leaves_a_daemon_and_dies(self, job: Job) -> None:
        self.leaves_a_daemon(job)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)

    def answers_from_a_copy(self, job: Job) -> None:
        """The copy goes on as the worker, with other numbers."""
        if os.fork() == 0:
            time.sleep(0.05)
            _wrong(job)

    def writes_from_a_copy(self, job: Job) -> None:
        connection = _frame("parent").descriptor
        if os.fork() == 0:
            for _ in range(40):
                time.sleep(0.02)
                os.write(connection, b"garbage")
            os._exit(0)

    def answers_twice(self, job: Job) -> None:
        parent, number = _frame("parent"), _frame("number")
        threading.Timer(
            0.02, lambda: parent.send({"op": number, "test": None, "unreadable": "", "changed": []})
        ).start()

    def answers_for_the_next(self, job: Job) -> None:
        _frame("parent").send({"op": _frame("number") + 1, "test": "{}", "changed": []})

    def answers_for_the_last(self, job: Job) -> None:
        _frame("parent").send({"op": _frame("number") - 1, "test": "{}", "changed": []})

    def writes_garbage(self, job: Job) -> None:
        os.write(_frame("parent").descriptor, b"OPSC and garbage")

    def writes_garbage_later(self, job: Job) -> None:
        connection = _frame("parent").descriptor
        _later(lambda: os.write(connection, b"garbage"), 0.02)

    # --- records
    def reports_megabytes(self, job: Job) -> None:
        raise StageError("no room for 12 " * 4_000_000, "x" * 50_000_000)

    def reports_surrogates(self, job: Job) -> None:
        raise StageError("lone \ud800 surrogate", "\udfff")

    def reports_escapes(self, job: Job) -> None:
        raise StageError("\x1b[2J\x07\x00 gone", "\x00")

    def names_what_is_no_text(self, job: Job) -> None:
        job.pipeline = "\ud800"

    def names_megabytes(self, job: Job) -> None:
        job.pipeline = "p" * 70_000_000

    def counts_words(self, job: Job) -> None:
        job.cycles = "many"

    def overwrites_its_inputs(self, job: Job) -> None:
        for array in job.inputs:
            array[...] = 7

    def returns_something_else(self, job: Job) -> None:
        job.outputs = [object()]

    # --- ends
    def exits(self, job: Job) -> None:
        sys.exit(0)

    def interrupts(self, job: Job) -> None:
        raise KeyboardInterrupt

    def recurses(self, job: Job) -> None:
        self.recurses(job)

    def sets_a_timeout(self, job: Job) -> None:
        socket.setdefaulttimeout(0.001)
        tempfile.tempdir = "/nowhere"


class Spoiler(StablehloInterpreter):
    """The interpreter, but for the ops that the plan names."""

    name = "spoiler"
    lasting = False

    def __init__(self) -> None:
        path = os.environ.get("SPOIL", "")
        self._plan = json.loads(Path(path).read_text()) if path else {}

    def fingerprint(self) -> str:
        return "spoiler-1"

    def climb(self, stage: Stage, job: Job) -> None:
        super().climb(stage, job)
        if stage is Stage.RUN and job.op_id in self._plan:
            getattr(Ways(), self._plan[job.op_id])(job)
