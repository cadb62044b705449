"""XLA's value of each operation of a binary, for `opscope simulate --golden`.

An operation is matched to an op of the model by its location: the path of a sweep's program (`main/12`), or the file
and line of the model's text where just one op has them. What a compiler fused away or changed has no golden.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.children.call import call
from opscope.base.children.inside import Parent
from opscope.base.children.process import QUIET
from opscope.base.machine import memory_limit
from opscope.base.model_files import Computed, GoldenOf
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.cache import export_folder
from opscope.harness.cli.read_file import read
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.paths import moved_back, moves_of, path_of
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Missing
from opscope.harness.record.element_types import load, save
from opscope.harness.record.errors import InputError
from opscope.harness.verdict.intermediates import CompiledOp, candidates

SECONDS = 600.0
Golden = str | list[tuple[list[int], str]]
"""Shape and element type of each golden of an operation, or why there are none."""
UNMATCHED = "no op of the model has this value: it was fused, moved or only a step"


def goldens(model: str, inputs: Sequence[np.ndarray], operations: Sequence[Computed]) -> GoldenOf:
    """Number of an operation -> the goldens of its results in its own layout, or why there are none.

    XLA runs in a child of its own, which may be ended: it may take all memory or crash. Raises InputError for a model
    that cannot be read, that takes other arguments, or that XLA does not compute.
    """
    folder = TemporaryFolder("goldens")  # removed once nobody has `golden_of`
    goldens_of = _in_a_child(Path(folder.name), model, inputs, operations)

    def golden_of(number: int) -> Sequence[np.ndarray] | str:
        own = goldens_of[number]
        place = Path(folder.name)
        return own if isinstance(own, str) else [load(_golden(place, number, k), *a) for k, a in enumerate(own)]

    return golden_of


def _in_a_child(folder: Path, model: str, inputs: Sequence[np.ndarray], operations: Sequence[Computed]) -> list[Golden]:
    for number, array in enumerate(inputs):
        save(_input(folder, number), array)
    shapes = [array.shape for array in inputs]
    task = {"folder": str(folder), "model": model, "shapes": shapes, "operations": operations}
    outcome = call(f"{__name__}:in_child", task, seconds=SECONDS, memory=memory_limit(None), environment=QUIET)
    if not outcome.ending.ok:
        got = f"{outcome.ending.text}: {outcome.log.last_line()}"
        raise InputError("--golden", f"XLA to compute {model} within {SECONDS:g} s", got, "a smaller model")
    if refused := outcome.result["refused"]:
        raise ValueError(refused)
    return list(outcome.result["goldens"])


def in_child(parent: Parent) -> dict[str, Any]:
    """Computes the goldens of a task and writes them to its folder.

    Returns why the model is refused, else for each operation the shape and element type of each golden, or why there
    are none.
    """
    task = parent.task()
    try:
        return {"refused": "", "goldens": _computed(Path(task["folder"]), task)}
    except InputError as error:
        return {"refused": str(error)}


def _computed(folder: Path, task: dict[str, Any]) -> list[Golden]:
    model, shapes = task["model"], [tuple(shape) for shape in task["shapes"]]
    operations = [
        (number, location, [(tuple(shape), kind) for shape, kind in results])
        for number, location, results in task["operations"]
    ]
    split = split_module(read(model), model)
    wanted = [(split.values[v].shape, split.values[v].data_type) for v in split.program.arguments]
    if [shape for shape, _ in wanted] != shapes:
        raise InputError(
            "--golden",
            f"the model that the binary was compiled from, with arguments {shapes}",
            f"{model} with {[shape for shape, _ in wanted]}",
        )
    inputs = [load(_input(folder, number), *about) for number, about in enumerate(wanted)]
    nodes = {node.path: node for node in split.program.walk() if node.kind == "op" and node.outputs}
    uses = Counter(_short(node.location) for node in nodes.values())
    path_of_place = {_short(n.location): path for path, n in nodes.items() if uses[_short(n.location)] == 1}
    compiled = [
        CompiledOp(number, location if path_of(location) else path_of_place.get(_short(location), ""), results)
        for number, location, results in operations
    ]
    expected = {path: tuple(split.values[v] for v in node.outputs) for path, node in nodes.items()}
    path_of_number = {number: path for path, number in candidates(compiled, expected).items()}
    made: list[Golden] = []
    places = frozenset(path_of_number.values())
    with closing(LiveGolden(split, inputs, places, export_folder.cache_dir(None))) as walk:
        for number, op in enumerate(compiled):
            path = path_of_number.get(number)
            results = walk.results(path) if path is not None else []
            missing = next((r.why for r in results if isinstance(r, Missing)), "" if results else "never evaluated")
            if path is None or missing:
                made.append(UNMATCHED if path is None else missing)
                continue
            moves = moves_of(op.location) or ()
            arrays = [r for r in results if not isinstance(r, Missing)]
            own = [moved_back(a, moves, shape) for a, (shape, _) in zip(arrays, op.results, strict=True)]
            for place, array in enumerate(own):
                save(_golden(folder, number, place), array)
            made.append([(list(a.shape), desc.data_type) for a, desc in zip(own, expected[path], strict=True)])
    return made


def _input(folder: Path, number: int) -> Path:
    return folder / f"input-{number}.npy"


def _golden(folder: Path, number: int, place: int) -> Path:
    return folder / f"golden-{number}-{place}.npy"


def _short(location: str) -> str:
    """A location without folders: `net.mlir:7`. The split writes names of files alone."""
    return re.sub(r"[^\s(]*/", "", location)
