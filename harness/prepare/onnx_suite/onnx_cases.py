"""The node tests of the package `onnx`, written into a folder: with answers to score by, or as models with inputs.

`write` has the standard's own layout: FOLDER/test_abs/model.onnx, test_data_set_0/input_0.pb, .../output_0.pb, ...
`write_models` writes FOLDER/test_abs.onnx and FOLDER/test_abs.npz, the values of its inputs by name.
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
CHANCE = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Ops that always draw. Dropout does in training."""


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
    cases = _collected()
    index = {}
    for name in choice.names(list(cases)):
        index[name] = _write_case(folder / name, cases[name])
    (folder / INDEX).write_text(json.dumps(index))
    return len(index)


def write_models(parent: Parent) -> int:
    """In a child: writes all cases into the task's `folder` as models; returns how many.

    The index names each case with the reason why it is no model, which is empty where it is one.
    """
    folder, reasons = Path(parent.task()["folder"]), {}
    for name, case in _collected().items():
        reasons[name] = _write_model(folder / name, case)
    (folder / INDEX).write_text(json.dumps(reasons))
    return len(reasons)


def _collected() -> dict[str, Any]:
    """The suite's cases by name. Takes some 15 s: it computes the answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose
        from onnx.backend.test.case.node import collect_testcases

        return {case.name: case for case in collect_testcases("") if EXPANDED not in case.name}


def _write_model(path: Path, case: Any) -> str:
    """Writes a case's graph and inputs; returns why it is no model, in which case nothing is written."""
    import numpy as np

    inputs, outputs = case.data_sets[0]
    if _draws(case):
        return "its answer is one draw of many"
    if other := next(filter(None, map(_other_than_numbers, (*inputs, *outputs))), ""):
        return f"{other}, and StableHLO has tensors of numbers only"
    path.with_suffix(".onnx").write_bytes(case.model.SerializeToString())
    names = [info.name for info in case.model.graph.input]
    np.savez(path.with_suffix(".npz"), **dict(zip(names, map(_array, inputs), strict=True)))
    return ""


def _draws(case: Any) -> bool:
    """Whether the stored answer of a case is one draw of many."""
    values = dict(zip([info.name for info in case.model.graph.input], case.data_sets[0][0], strict=True))
    for node in case.model.graph.node:
        _, ratio, training, *_ = (*(values.get(name) for name in node.input), None, None, None)
        if node.op_type in CHANCE or (node.op_type == "Dropout" and training and (ratio is None or ratio)):
            return True
    return False


def _other_than_numbers(value: Any) -> str:
    """What a value is that no tensor of numbers is; empty if it is one."""
    import numpy as np
    from onnx import TensorProto

    if isinstance(value, TensorProto):
        return ""
    if not isinstance(value, (np.ndarray, np.generic)):
        return "a sequence or an optional value"
    return "text" if np.asarray(value).dtype.kind in "OSU" else ""


def _array(value: Any) -> Any:
    """A value as an array."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


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
            if other_type := _other_than_numbers(value):
                other = other_type
            else:
                tensor = value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value))
                (folder / DATA / f"{kind}_{index}.pb").write_bytes(tensor.SerializeToString())
    op = "+".join(node.op_type for node in case.model.graph.node)
    return {"op": op, "rtol": case.rtol, "atol": case.atol, "other": other, "draws": _draws(case)}


def tensors(folder: Path, kind: str) -> list[Any]:
    """The arrays of a case: its `input` or `output`, in order."""
    from onnx import TensorProto, numpy_helper

    arrays = []
    while (path := folder / DATA / f"{kind}_{len(arrays)}.pb").is_file():
        tensor = TensorProto()
        tensor.ParseFromString(path.read_bytes())
        arrays.append(numpy_helper.to_array(tensor))
    return arrays
