"""The mesh of a run of sharded StableHLO files, without --mesh: the files' own, on a board of its size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.harness.backends import registry
from opscope.harness.prepare import file_models
from opscope.harness.prepare.preparation import listing_seconds
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import DRAWN, ResultOptions
from opscope.harness.record.workflows import SPLIT

if TYPE_CHECKING:
    from opscope.harness.prepare.preparation import Task


@dataclass(frozen=True)
class OwnMesh:
    """What a run takes from its files."""

    mesh: str
    board: str
    line: str
    """Says so to the user."""


def of_files(
    named: Sequence[Task], options: ResultOptions, backends: Sequence[str], arch_given: bool, on_fail: bool = False
) -> OwnMesh | None:
    """The mesh that all models of a run are sharded over by their own `sdy.mesh`, or whose devices their collectives
    join, and the board; None if there is none.

    Models of which only some are sharded, or over different meshes, have none in common: each that is sharded is
    refused with the option that runs it. Where `arch_given` is false, a board with too few chips is replaced by the
    smallest that has enough, if a backend of the run has boards. Raises InputError for options that do not go with a
    mesh.
    """
    if options.mesh is not None:
        return None
    meshes = {task.name: _read(task, file_models.mesh) for task in named}
    mesh, *others = dict.fromkeys(meshes.values())
    if others or not mesh:
        return None
    name = named[0].name
    where = f"--model {name}: over its own mesh {mesh}"
    if options.workflow != SPLIT or on_fail:
        got = f"--workflow {options.workflow}" if options.workflow != SPLIT else "--op-by-op-on-fail"
        raise InputError(where, f"--workflow {SPLIT}", got, f"--workflow {SPLIT} --mesh {mesh}")
    if options.inputs in DRAWN:
        raise InputError(where, "--inputs captured", "--inputs random", f"--inputs captured --mesh {mesh}")
    devices, board = math.prod(map(int, mesh.split("x"))), options.arch
    if not arch_given:
        for backend in set(backends) & set(registry.own_names()):
            board = registry.load(backend).board_for(devices, board)
    count = f"{len(named)} models" if len(named) > 1 else name
    how = "as --arch says" if arch_given else f"the smallest with {devices} chips" if board != options.arch else "usual"
    return OwnMesh(mesh, board, f"{count}: over its own mesh {mesh}, board {board} ({how})")


def check(named: Sequence[Task], options: ResultOptions, backends: Sequence[str]) -> None:
    """Raises InputError for a mesh of more devices than the board has chips, if a backend of the run has boards, and
    for a file whose shardings its compiler does not read."""
    for backend in [name for name in backends if registry.declares(name, "refuses_gspmd")]:
        for task in named:
            if words := _read(task, file_models.gspmd):
                expected = f"shardings that {backend}'s compiler reads, by sdy.mesh"
                got, hint = f"GSPMD's ({words})", "an export by Shardy, or --backend reference"
                raise InputError(f"--model {task.name}", expected, got, hint)
    for backend in sorted(set(backends) & set(registry.own_names())) if options.mesh else ():
        registry.load(backend).check_mesh(options)


def _read(task: Task, words_of: Callable[[Path, str, Path, float], str]) -> str:
    """What a function of `file_models` says of a model's file; empty if that is no StableHLO."""
    path, request = Path(task.path), task.request
    if task.export is not None or task.unreadable or request.cache_dir is None:
        return ""
    return words_of(path, task.entry, Path(request.cache_dir), listing_seconds(path, request))
