"""Exports a model's file in a process of its own: frameworks that share a process end each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.children.call import call
from opscope.base.temporary_folder import TemporaryFolder
from opscope.models.frontends import child, get
from opscope.models.frontends.base import ExportResult, Source
from opscope.simulator.host.errors import PyBudaError

SECONDS = 600.0
"""Time limit of one export."""


def export(where: str, framework: str, path: Path, shapes: Mapping[str, tuple[int, ...]]) -> ExportResult:
    """Returns what the exporter of a framework makes of a file, with the values of its weights. Raises PyBudaError.

    `shapes` fix dimensions of inputs that the file leaves open.
    """
    last: dict[str, Any] = {}
    source = Source("forward", str(path), "float32", shapes=tuple(shapes.items()))
    with TemporaryFolder("export") as folder:
        task = {"framework": framework, **asdict(source), "folder": folder}
        frontend = get(framework)
        outcome = call(
            "opscope.models.frontends.child:export",
            task,
            seconds=SECONDS,
            on_message=last.update,
            environment=frontend.environment,
        )
        if last.get("event") == "refused":
            hint = f"; try {last['hint']}" if last["hint"] else ""
            raise PyBudaError(f"{where}: {last['where']}: expected {last['expected']}, got {last['got']}{hint}")
        if last.get("event") != "exported":
            raise PyBudaError(f"{where}: {last.get('error') or outcome.log.last_line() or outcome.ending.text}"[:300])
        result = child.read(Path(folder))
        values = {name: _loaded(file, result, name) for name, file in result.files.items()}
    return ExportResult(result.bytecode, result.arguments, result.frontend, values, result.bound)


def _loaded(file: str, result: ExportResult, name: str) -> np.ndarray:
    from opscope.simulator.host.fitting import host_dtype_of

    kind = next(spec.dtype for spec in result.arguments if spec.name == name)
    array = np.load(file, allow_pickle=False)
    wanted = host_dtype_of(kind)
    return array if array.dtype == wanted or array.dtype.itemsize != wanted.itemsize else array.view(wanted)
