"""One exporter at work, in a child process of its own (`export`).

Its task is `framework`, the fields of `base.Source`, and `folder`. It writes `module.mlirbc`, `arguments.json` and
`values/` into the folder, and sends one message per event:

    {"event": "stage", "stage": "build" | "export"}
    {"event": "failed", "stage", "error", "traceback"}    the model or its framework raised
    {"event": "refused", "where", "expected", "got", "hint"}

A process that ends before `export` returned failed in the stage that it had begun.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent
from opscope.models import frontends
from opscope.models.arguments import ArgSpec
from opscope.models.frontends.base import Handed, Refused, Source

MODULE, ARGUMENTS, VALUES = "module.mlirbc", "arguments.json", "values"


def export(parent: Parent) -> None:
    """Does a task; returns whatever becomes of it, as the last event says."""

    def emit(event: str, **fields: Any) -> None:
        parent.send({"event": event, **fields})

    task = parent.task()
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
    except Refused as error:
        emit("refused", where=error.where, expected=error.expected, got=error.got, hint=error.hint)
    except Exception as error:  # noqa: BLE001 - whatever a model or a framework raises is the model's row
        text = str(error).strip()
        first = text.splitlines()[0] if text else ""
        emit("failed", stage=stage, error=f"{type(error).__name__}: {first}"[:300], traceback=traceback.format_exc())


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
