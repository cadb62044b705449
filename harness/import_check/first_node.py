"""The first node of an ONNX graph whose value differs from the standard's: all of them are imported as results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.children.call import call
from opscope.base.temporary_folder import TemporaryFolder
from opscope.base.visible_text import cut
from opscope.harness.import_check.agreement import first_wrong
from opscope.harness.prepare import golden
from opscope.harness.record.records import TensorDesc


def find(task: Mapping[str, Any], environment: Mapping[str, str], cache_dir: Path) -> str:
    """Name and kind of the node, `node_1/Mod`; else why it is not known, in brackets."""
    with TemporaryFolder("nodes") as temporary:
        folder = Path(temporary)
        outcome = call(
            "opscope.models.frontends.through_onnx.node_values:write",
            {**task, "folder": temporary},
            environment=environment,
        )
        if not outcome.ending.ok:
            return cut(f"(node not known: {outcome.log.last_line() or outcome.ending.text})", 200)
        nodes = json.loads((folder / "nodes.json").read_text(encoding="utf-8"))
        try:
            executable = golden.compile_module((folder / "module.mlirbc").read_bytes(), cache_dir)
            with np.load(folder / "inputs.npz") as archive:
                inputs = [archive[f"arr_{index}"] for index in range(len(archive.files))]
            results = executable(inputs)
        except golden.GoldenError as error:
            return cut(f"(node not known: {error})", 200)
        with np.load(folder / "values.npz") as archive:
            for index, (name, result) in enumerate(zip(nodes, results, strict=True)):
                desc = TensorDesc(shape=result.shape, data_type=_mlir_name(result.dtype))
                if first_wrong([archive[f"arr_{index}"]], [np.asarray(result)], [desc])[1]:
                    return name
    return "(no node differs by itself)"


def _mlir_name(dtype: np.dtype) -> str:
    from opscope.harness.record.element_types import NUMPY_NAMES

    return next((mlir for mlir, name in NUMPY_NAMES.items() if name == dtype.name and mlir != "tf32"), dtype.name)
