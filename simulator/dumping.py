"""Writes the results of each operation of a run to a folder, as an observer: `.npy` files and `index.json`.

    0004-matmul.npy            the first result of the fifth operation; the second is 0004-matmul-1.npy
    0004-matmul.golden.npy     its golden, where there is one
    index.json                 the operations in order, with location, shape, element type and number format

Element types that NumPy has not are stored as unsigned integers of the same bits; the index says which type it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.compiler.target.program import Operation
from opscope.simulator.observing import Step

INDEX = "index.json"
Goldens = Callable[[Operation], Sequence[np.ndarray] | str]
"""The goldens of an operation's results, or why there are none."""


class Dump:
    """Writes each operation's results into a folder, which must be new or empty."""

    def __init__(self, folder: Path, about: dict[str, Any], goldens: Goldens | None = None) -> None:
        """`about`: what the index says of the run. Raises OSError or ValueError for a folder that cannot be had."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"--dump: expected a new or an empty folder, got {folder}; try another name")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.about, self.goldens = folder, about, goldens
        self.operations: list[dict[str, Any]] = []
        self._seen: set[int] = set()

    def observe(self, step: Step) -> None:
        """Writes the results of an operation."""
        op, number = step.operation, len(self.operations)
        entry: dict[str, Any] = {
            "number": number,
            "program": step.program.name,
            "kernel": op.kernel,
            "location": op.location,
            "results": [],
        }
        self.operations.append(entry)
        stem = f"{number:04d}-{re.sub(r'[^A-Za-z0-9_]', '_', op.kernel)}"
        goldens: Sequence[np.ndarray] | str = ""
        if self.goldens is not None and op.outputs:
            goldens = "run more than once: its first results have the golden" if id(op) in self._seen else ""
            goldens = goldens or self.goldens(op)
            self._seen.add(id(op))
            if isinstance(goldens, str):
                entry["no_golden"] = goldens
        for place, (tensor, array) in enumerate(zip(op.outputs, step.results(), strict=True)):
            desc = step.program.tensors[tensor]
            name = stem if place == 0 else f"{stem}-{place}"
            result = {
                "file": f"{name}.npy",
                "tensor": tensor,
                "shape": list(desc.shape),
                "element_type": desc.element_type,
                "data_format": desc.data_format,
                "layout": desc.layout,
                "buffer_type": desc.buffer_type,
            }
            _write(self.folder / result["file"], array)
            if not isinstance(goldens, str) and place < len(goldens):
                result["golden"] = f"{name}.golden.npy"
                _write(self.folder / result["golden"], np.asarray(goldens[place], array.dtype))
            entry["results"].append(result)

    def close(self) -> None:
        """Writes the index of what was dumped so far, also after a run that did not end."""
        index = {**self.about, "operations": self.operations}
        (self.folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _write(path: Path, array: np.ndarray) -> None:
    array = np.ascontiguousarray(array).reshape(array.shape)
    np.save(path, array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}"), allow_pickle=False)
