"""XLA's value of each operation of a binary, for `opscope simulate --golden`.

An operation is matched to an op of the model by its location: the path of a sweep's program (`main/12`), or the file
and line of the model's text where just one op has them. What a compiler fused away or changed has no golden.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from opscope.base.model_files import Computed, GoldenOf
from opscope.harness.cache import export_folder
from opscope.harness.cli.read_file import read
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.paths import moved_back, moves_of, path_of
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Missing
from opscope.harness.record.errors import InputError
from opscope.harness.verdict.intermediates import CompiledOp, candidates

UNMATCHED = "no op of the model has this value: it was fused, moved or only a step"


def goldens(model: str, inputs: Sequence[np.ndarray], operations: Sequence[Computed]) -> GoldenOf:
    """Number of an operation -> the goldens of its results in its own layout, or why there are none; each once.

    Raises InputError for a model that cannot be read, or that takes other arguments.
    """
    split = split_module(read(model), model)
    wanted = [(split.values[v].shape, split.values[v].data_type) for v in split.program.arguments]
    got = [array.shape for array in inputs]
    if [shape for shape, _ in wanted] != got:
        raise InputError("--golden", f"the model that the binary was compiled from, with arguments {got}",
                         f"{model} with {[shape for shape, _ in wanted]}")  # fmt: skip
    nodes = {node.path: node for node in split.program.walk() if node.kind == "op" and node.outputs}
    uses = Counter(_short(node.location) for node in nodes.values())
    path_of_place = {_short(n.location): path for path, n in nodes.items() if uses[_short(n.location)] == 1}
    compiled = [
        CompiledOp(number, location if path_of(location) else path_of_place.get(_short(location), ""), results)
        for number, location, results in operations
    ]
    expected = {path: tuple(split.values[v] for v in node.outputs) for path, node in nodes.items()}
    path_of_number = {number: path for path, number in candidates(compiled, expected).items()}
    walk = LiveGolden(split, inputs, frozenset(path_of_number.values()), export_folder.cache_dir(None))

    def golden_of(number: int) -> Sequence[np.ndarray] | str:
        path = path_of_number.get(number)
        if path is None:
            return UNMATCHED
        results = walk.results(path)
        missing = next((r.reason for r in results if isinstance(r, Missing)), "" if results else "never evaluated")
        if missing:
            return missing
        moves = moves_of(compiled[number].location) or ()
        arrays = [r for r in results if not isinstance(r, Missing)]
        return [moved_back(a, moves, shape) for a, (shape, _) in zip(arrays, compiled[number].results, strict=True)]

    return golden_of


def _short(location: str) -> str:
    """A location without folders: `net.mlir:7`. The split writes names of files alone."""
    return re.sub(r"[^\s(]*/", "", location)
