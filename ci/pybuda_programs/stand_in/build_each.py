"""Runs programs up to their first compile, as forks of one process that has imported the frameworks.

`python -m opscope.pybuda build_each.py FOLDER PROGRAM...`: FOLDER gets output, notes and exit code of each, by number.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sitecustomize  # the stand-in itself

from opscope.pybuda.__main__ import main
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
MOST_SECONDS = 120
"""Of processor time, for one program."""


def stop(device: TTDevice, inputs: Any) -> None:
    """Ends the program where a device would compile its modules."""
    sitecustomize.note("built")
    sys.exit(0)


def build(folder: Path, number: int, program: str) -> int:
    """Runs one program in this process; returns its exit code."""
    output = os.open(folder / f"{number}.output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sitecustomize.NOTES = str(folder / f"{number}.notes")
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 5))
    path = Path(program)
    sys.path[1:1] = [*(str(folder) for folder in path.parents if folder.name == "model_demos"), str(path.parent)]
    try:
        return main([program])
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    except Exception:  # noqa: BLE001 - a program's own
        traceback.print_exc()
        return 1


for name in FRAMEWORKS:
    if find_spec(name.partition(".")[0]) is not None:
        importlib.import_module(name)
TTDevice.compile_modules = stop  # type: ignore[method-assign]
results, *paths = sys.argv[1:]
for place, one in enumerate(paths):
    child = os.fork()
    if child == 0:
        ended = build(Path(results), place, one)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)
    _, status = os.waitpid(child, 0)
    (Path(results) / f"{place}.code").write_text(str(os.waitstatus_to_exitcode(status)))
