"""Runs one exporter in a child process of its own (`export`).

Its task is `framework`, the fields of `base.Source`, and `folder`. It writes `module.mlirbc`, `arguments.json` and
`values/` into the folder, and sends one message per event:

    {"event": "stage", "stage": "build" | "export"}
    {"event": "read", "report"}                           what it has read so far (`opscope.base.reading`)
    {"event": "exported", "bytes"}                        the export is complete, however the process ends; how large
                                                          the arguments are that its framework now gets
    {"event": "failed", "stage", "error", "traceback"}    the model or its framework raised
    {"event": "refused", "where", "expected", "got", "hint"}

If the process ends before it has exported, the stage that it began last has failed. `own` in the task, `{"seed",
"cap"}`, asks for the model's results in its own framework too (`own_results.py`). `slots` is a file of slots and their
number: the exporter works in one of them; null for none. With `reader`, a release of jaxlib, the module is one
that this release reads, a portable artifact where this StableHLO can write one.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from opscope.base import reading
from opscope.base.children.inside import Parent
from opscope.base.first_line import first_line
from opscope.base.slots import take_one
from opscope.base.xla import xla_releases
from opscope.models import frontends, registry
from opscope.models.arguments import ArgSpec
from opscope.models.frontends import own_results, portable_artifact
from opscope.models.frontends.base import ExportResult, Frontend, Refused, Source

MODULE, ARGUMENTS, VALUES = "module.mlirbc", "arguments.json", "values"


def export(parent: Parent) -> None:
    """Carries out one task. Returns normally however the task ends; the last event tells how."""

    def emit(event: str, **fields: Any) -> None:
        parent.send({"event": event, **fields})

    task = parent.task()
    framework, folder, own = task.pop("framework"), Path(task.pop("folder")), task.pop("own", None)
    take_one(task.pop("slots", None))
    reader = task.pop("reader", "")
    source = source_of(task)
    stage = "build"
    try:
        emit("stage", stage=stage)
        frontend = frontends.get(framework)
        use_safe_flags(frontend)
        built = frontend.build(source)
        stage = "export"
        emit("stage", stage=stage)
        result = frontend.export(built, source)
        shardings = registry.shardings_of(source.entry or source.name, source.path)
        result = replace(result, shardings={} if source.training else shardings)
        if reader:
            result = replace(result, bytecode=portable_artifact.of(result.bytecode, reader))
        write_result(result, folder)
        emit("read", report=reading.report())
        emit("exported", bytes=own_results.size_of(result.arguments) if own else 0)
        if own:
            own_results.leave(frontend, built, source, result, folder, **own)
            if (report := reading.report()) is not None:
                emit("read", report=report)
    except Refused as error:
        emit("refused", where=error.where, expected=error.expected, got=error.got, hint=error.hint)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a model or a framework raises is the model's row
        line = in_one_line(error, source.path)
        beyond = frontends.beyond_bounds(framework, Path(source.path))
        if beyond and not _own_frames(error, source.path):
            got = f"{beyond.installed}: {line}"
            emit("refused", where=f"--model {source.path}", expected=beyond.run, got=got, hint=beyond.hint)
        else:
            said = f"{line}; {beyond.installed} is not what was run, {beyond.run}" if beyond else line
            emit("failed", stage=stage, error=said, traceback=traceback.format_exc())


def use_safe_flags(frontend: Frontend) -> None:
    """Has JAX compute without the known bugs of its release. An XLA that TensorFlow brings ends at flags that it does
    not know."""
    if not any(package.startswith("tensorflow") for package in (*frontend.packages, *frontend.either)):
        xla_releases.use_flags()


def source_of(values: dict[str, Any]) -> Source:
    """A source from its JSON."""
    shapes = tuple((name, tuple(shape)) for name, shape in values.get("shapes", ()))
    return Source(**{**values, "shapes": shapes})


def in_one_line(error: BaseException, path: str) -> str:
    """The error's type and first line, and the last line of the model's own file that it passed: `(net.py:12)`."""
    own = _own_frames(error, path)
    line = f"{type(error).__name__}: {first_line(error)}"[:300]
    return f"{line} ({Path(path).name}:{own[-1].lineno})" if own else line


def _own_frames(error: BaseException, path: str) -> list[traceback.FrameSummary]:
    """The lines of the model's own file that the error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if Path(frame.filename).resolve() == Path(path).resolve()]


def write_result(result: ExportResult, folder: Path) -> None:
    """Writes the result into `folder`, where `read` finds it."""
    (folder / MODULE).write_bytes(result.bytecode)
    document = {
        "frontend": result.frontend,
        "arguments": [asdict(spec) for spec in result.arguments],
        "files": _write_values(result, folder),
        "bound": result.bound,
        "shardings": dict(result.shardings),
        "roles": result.roles,
        "notes": result.notes,
    }
    (folder / ARGUMENTS).write_text(json.dumps(document) + "\n", encoding="utf-8")


def _write_values(result: ExportResult, folder: Path) -> dict[str, str]:
    """Writes the values that the model's file holds; returns argument -> file.

    Values of types that NumPy does not have are written as their bits.
    """
    if not result.values:
        return {}
    import numpy as np

    (folder / VALUES).mkdir()
    files = {}
    for index, spec in enumerate(result.arguments):
        if spec.name in result.values:
            array = np.ascontiguousarray(result.values[spec.name]).reshape(spec.shape)
            array = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
            files[spec.name] = f"{VALUES}/{index}.npy"
            np.save(folder / files[spec.name], array, allow_pickle=False)
    return files


def read(folder: Path) -> ExportResult:
    """Reads what an exporter wrote into `folder`. Raises OSError or ValueError if that is incomplete."""
    document = json.loads((folder / ARGUMENTS).read_text(encoding="utf-8"))
    specs = tuple(ArgSpec(**{**spec, "shape": tuple(spec["shape"])}) for spec in document["arguments"])
    files = {name: str(folder / file) for name, file in document["files"].items()}
    bound = tuple(document.get("bound", ()))
    return ExportResult(
        (folder / MODULE).read_bytes(),
        specs,
        document["frontend"],
        bound=bound,
        files=files,
        shardings=document.get("shardings", {}),
        roles=tuple(document.get("roles", ())),
        notes=tuple(document.get("notes", ())),
    )
