"""Runs programs one after the other, each as a fork of one process that has imported the frameworks.

`python run_each.py FOLDER STAGE SECONDS GIB PROGRAM...`: STAGE is where a program ends (`build`, `compile`, `run`).
FOLDER gets output and notes of each, by number; a line of standard output is the number, the exit code (`late` for one
that took longer than SECONDS of two processors) and the seconds that it took.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sitecustomize  # the stand-in itself

from opscope.base import jax_plugins
from opscope.pybuda.__main__ import main
from opscope.simulator.host.card_program import CardProgram
from opscope.simulator.host.devices.tt_device import TTDevice

FRAMEWORKS = (
    "torch",
    "torchvision",
    "timm",
    "transformers",
    "pytorchcv.model_provider",
    "jax",
    "requests",
    "PIL.Image",
)


def stop(*arguments: Any) -> None:
    """Ends the program, whatever it catches, where a device would compile its modules or run them."""
    sitecustomize.note("stopped")
    sys.stdout.flush()
    os._exit(0)


def run(folder: Path, number: int, program: str) -> int:
    """Runs one program in this process; returns its exit code."""
    output = os.open(folder / f"{number}.output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sitecustomize.NOTES = os.environ["PROGRAM_NOTES"] = str(folder / f"{number}.notes")
    (folder / f"{number}").mkdir()
    os.chdir(folder / f"{number}")
    path = Path(program)
    sys.path[1:1] = [*(str(folder) for folder in path.parents if folder.name == "model_demos"), str(path.parent)]
    try:
        return main([program])
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    except Exception:  # noqa: BLE001 - a program's own
        traceback.print_exc()
        return 1


def ended(child: int, seconds: float) -> str:
    """Waits for a program, and ends it with all that it started once its time is over; returns how it ended."""
    end = time.monotonic() + 2 * seconds  # others may have a processor, too
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return "late" if code == -signal.SIGXCPU else str(code)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "late"


results, stage, most, gib, *paths = sys.argv[1:]
jax_plugins.keep_out()
for name in FRAMEWORKS:
    if find_spec(name.partition(".")[0]) is not None:
        importlib.import_module(name)
if stage == "build":
    TTDevice.compile_modules = stop  # type: ignore[method-assign]
elif stage == "compile":
    CardProgram.run = stop  # type: ignore[method-assign,assignment]
for place, one in enumerate(paths):
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        most_cpu = max(1, round(2 * float(most)))
        resource.setrlimit(resource.RLIMIT_CPU, (most_cpu, most_cpu + 5))
        resource.setrlimit(resource.RLIMIT_AS, (int(gib) << 30, int(gib) << 30))
        code = run(Path(results), place, one)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(place, ended(child, float(most)), time.monotonic() - begin, flush=True)
