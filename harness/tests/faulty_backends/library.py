"""A backend with a library that is loaded once, starts a thread, and writes files: it notes what is called where."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from opscope.harness.backends.base import Backend, BackendError, Job, StageError, Target
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage


def _note(step: str) -> None:
    """Adds a line to the notes; raises or ends the process where the test asks for it at this step."""
    place = os.environ["LIBRARY_NOTES"]
    with Path(place).open("a", encoding="utf-8") as notes:
        notes.write(f"{step} {os.getpid()} {os.environ['TMPDIR']} {Path.cwd()}\n")
    what = os.environ.get(f"LIBRARY_{step.upper()}")
    if what == "error":
        raise RuntimeError(f"no luck\nin {step}")
    if what == "backend error":
        raise BackendError("no chip", "a chip", "another machine")
    if what == "exit":
        print(f"TT_FATAL: {step} without a chip", file=sys.stderr, flush=True)
        os._exit(9)
    if what == "hang":
        time.sleep(3600)


class Library(Backend):
    """Its ops pass, unless their text says otherwise."""

    name = "library"
    stages = (Stage.COMPILE,)
    forkable = True
    scratch_bytes = 1 << 20

    def load(self) -> None:
        print("unpacking", file=sys.stderr, flush=True)
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        Path(tempfile.gettempdir(), "assets").write_bytes(b"x" * 1000)
        _note("load")

    def open(self, options: ResultOptions) -> None:
        Path("generated").mkdir()
        Path(tempfile.gettempdir(), "descriptor").write_text(options.arch or "none", encoding="utf-8")
        _note("open")

    def target(self, options: ResultOptions) -> Target:
        if os.environ.get("LIBRARY_TARGET"):
            _note("target")
        return Target("host", None, "exact")

    def fingerprint(self, options: ResultOptions) -> str:
        _note("fingerprint")
        return "library-1"

    def warm_up(self, options: ResultOptions) -> None:
        _note("warm_up")

    def versions(self) -> Mapping[str, str]:
        return {"the-library": "4.5"}

    def available(self) -> str | None:
        return None

    def climb(self, stage: Stage, job: Job) -> None:
        if b"crash" in job.module or b"tanh" in job.module:
            os.write(2, b"LLVM ERROR: no such op today\n")
            os.abort()
        if b"gone" in job.module:
            raise BackendError("the chip is gone")
        if b"dot_general" in job.module or os.environ.get("LIBRARY_CLIMB"):
            raise StageError("it refuses this")

    def close(self) -> None:
        _note("close")

    def repro_lines(self, job: Job) -> Sequence[str]:
        return ("the-compiler module.mlir",)
