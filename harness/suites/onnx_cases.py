"""The node tests of the package `onnx`, written into a folder in the standard's own layout.

FOLDER/test_abs/model.onnx, test_data_set_0/input_0.pb, test_data_set_0/output_0.pb, ...
"""

from __future__ import annotations

import fnmatch
import json
import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent

INDEX = "cases.json"
DATA = "test_data_set_0"
EXPANDED = "_expanded"
"""Part of the name of a case that repeats another one by the function body of its op."""


@dataclass(frozen=True)
class Choice:
    """Which cases are run."""

    pattern: str = "*"
    """Glob over names."""
    sample: int = 0
    """How many of them, drawn with `seed`; 0: all."""
    seed: int = 0

    def names(self, every: list[str]) -> list[str]:
        """The chosen of `every`, in its order."""
        matching = [name for name in every if fnmatch.fnmatchcase(name, self.pattern)]
        if not self.sample or self.sample >= len(matching):
            return matching
        drawn = set(random.Random(self.seed).sample(matching, self.sample))
        return [name for name in matching if name in drawn]


def write(parent: Parent) -> int:
    """In a child: writes the cases that the task's `choice` takes into its `folder`; returns how many."""
    task = parent.task()
    folder, choice = Path(task["folder"]), Choice(**task["choice"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose
        from onnx.backend.test.case.node import collect_testcases

        cases = {case.name: case for case in collect_testcases("") if EXPANDED not in case.name}
    index = {}
    for name in choice.names(list(cases)):
        index[name] = _write_case(folder / name, cases[name])
    (folder / INDEX).write_text(json.dumps(index))
    return len(index)


def _write_case(folder: Path, case: Any) -> dict[str, Any]:
    """Writes one case; returns its op, its tolerances and, for a case with values other than tensors, their kind."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    (folder / DATA).mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    inputs, outputs = case.data_sets[0]
    other = ""
    for kind, values in (("input", inputs), ("output", outputs)):
        for index, value in enumerate(values):
            if not isinstance(value, (TensorProto, np.ndarray, np.generic)):
                other = "a sequence or an optional value"
            elif not isinstance(value, TensorProto) and np.asarray(value).dtype.kind in "OSU":
                other = "text"
            else:
                tensor = value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value))
                (folder / DATA / f"{kind}_{index}.pb").write_bytes(tensor.SerializeToString())
    op = "+".join(node.op_type for node in case.model.graph.node)
    return {"op": op, "rtol": case.rtol, "atol": case.atol, "other": other}


def tensors(folder: Path, kind: str) -> list[Any]:
    """The arrays of a case: its `input` or `output`, in order."""
    from onnx import TensorProto, numpy_helper

    arrays = []
    while (path := folder / DATA / f"{kind}_{len(arrays)}.pb").is_file():
        tensor = TensorProto()
        tensor.ParseFromString(path.read_bytes())
        arrays.append(numpy_helper.to_array(tensor))
    return arrays
