"""The process of one exporter: `python -P -m opscope.models.frontends.child`.

Reads a task as JSON on stdin: `framework`, the fields of `base.Source`, and `folder`. Writes `module.mlirbc`,
`arguments.json` and `values/` into the folder, and one JSON event per line on stdout:

    {"event": "stage", "stage": "build" | "export"}
    {"event": "failed", "stage", "error", "traceback"}    the model or its framework raised
    {"event": "refused", "where", "expected", "got", "hint"}
    {"event": "done"}

Whatever the framework prints goes to stderr. A process that ends without a last word failed in the stage it had begun.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opscope.models import frontends
from opscope.models.arguments import ArgSpec
from opscope.models.frontends.base import Handed, Refused, Source

MODULE, ARGUMENTS, VALUES = "module.mlirbc", "arguments.json", "values"
PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent dies."""


def main() -> int:
    """Does the task on stdin; exit code 0 whatever becomes of it, as the last event tells."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    faulthandler.enable()
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def emit(event: str, **fields: Any) -> None:
        events.write(json.dumps({"event": event, **fields}) + "\n")

    task = json.loads(sys.stdin.buffer.read())
    framework, folder = task.pop("framework"), Path(task.pop("folder"))
    shapes = tuple((name, tuple(shape)) for name, shape in task.pop("shapes", ()))
    source = Source(**task, shapes=shapes)
    stage = "build"
    try:
        emit("stage", stage=stage)
        frontend = frontends.get(framework)
        built = frontend.build(source)
        stage = "export"
        emit("stage", stage=stage)
        hand_over(frontend.export(built, source), folder)
        emit("done")
    except Refused as error:
        emit("refused", where=error.where, expected=error.expected, got=error.got, hint=error.hint)
    except Exception as error:  # noqa: BLE001 - whatever a model or a framework raises is the model's row
        text = str(error).strip()
        first = text.splitlines()[0] if text else ""
        emit("failed", stage=stage, error=f"{type(error).__name__}: {first}"[:300], traceback=traceback.format_exc())
    events.flush()
    sys.stderr.flush()
    # Frameworks leave threads and destructors behind that may hang or abort: all that matters is written.
    os._exit(0)


def hand_over(handed: Handed, folder: Path) -> None:
    """Writes what `read` reads."""
    (folder / MODULE).write_bytes(handed.bytecode)
    told = {
        "frontend": handed.frontend,
        "arguments": [asdict(spec) for spec in handed.arguments],
        "files": _write_values(handed, folder),
    }
    (folder / ARGUMENTS).write_text(json.dumps(told) + "\n")


def _write_values(handed: Handed, folder: Path) -> dict[str, str]:
    """Writes the values that the model brings; argument -> file. Types that are not NumPy's own go as their bits."""
    if not handed.values:
        return {}
    import numpy as np

    (folder / VALUES).mkdir()
    files = {}
    for index, spec in enumerate(handed.arguments):
        if spec.name in handed.values:
            array = np.ascontiguousarray(handed.values[spec.name]).reshape(spec.shape)
            array = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
            files[spec.name] = f"{VALUES}/{index}.npy"
            np.save(folder / files[spec.name], array, allow_pickle=False)
    return files


def read(folder: Path) -> Handed:
    """What an exporter left in `folder`. Raises OSError or ValueError where that is not whole."""
    told = json.loads((folder / ARGUMENTS).read_text())
    specs = tuple(ArgSpec(**{**spec, "shape": tuple(spec["shape"])}) for spec in told["arguments"])
    files = {name: str(folder / file) for name, file in told["files"].items()}
    return Handed((folder / MODULE).read_bytes(), specs, told["frontend"], files=files)


if __name__ == "__main__":
    raise SystemExit(main())
