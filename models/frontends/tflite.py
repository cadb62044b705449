"""TensorFlow Lite: tf2onnx converts the file to ONNX in its own process, and the ONNX exporter does the rest."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.children.call import call
from opscope.base.temporary_folder import TemporaryFolder
from opscope.models.frontends import onnx
from opscope.models.frontends.base import ExportResult, Frontend, NoOwnResults, Refused, Source
from opscope.models.frontends.jax import package_versions
from opscope.models.frontends.tf import ENVIRONMENT, TENSORFLOW

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt

MAGIC = b"TFL3"
"""Bytes 4 to 8 of a TFLite file: its flatbuffer's identifier."""


@dataclass(frozen=True)
class TfLite(Frontend):
    """The exporter of TFLite files."""

    name: str = "tflite"
    packages: tuple[str, ...] = ("tf2onnx", "onnx", "torch-mlir")
    either: tuple[str, ...] = TENSORFLOW
    extra: str = "tflite"
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)

    def build(self, source: Source) -> OnnxBuilt:
        """Returns the file's graph in ONNX. Float weights are arguments, integer ones constants."""
        path = Path(source.path)
        if path.suffix == ".tflite" and path.read_bytes()[4:8] != MAGIC:
            raise Refused(str(path), "a TFLite file", f"a file without {MAGIC.decode()} in bytes 4 to 8")
        with TemporaryFolder("tflite") as folder:
            output = Path(folder) / "model.onnx"
            task = {
                "path": str(path),
                "name": source.entry or source.name,
                "dtype": source.dtype,
                "output": str(output),
            }
            outcome = call("opscope.models.frontends.through_onnx.from_tflite:write_onnx", task)
            sys.stderr.write(outcome.log.tail())
            if not output.is_file():
                raise RuntimeError(f"tf2onnx: {outcome.log.last_line() or outcome.ending.kind}"[:300])
            return onnx.from_file(output, dict(source.shapes), where=str(path), sizes=source.sizes)

    def export(self, built: OnnxBuilt, source: Source) -> ExportResult:
        """Exports the graph as StableHLO."""
        result = onnx.FRONTEND.export(built, source)
        versions = package_versions(self.packages, TENSORFLOW)
        return ExportResult(result.bytecode, result.arguments, versions, result.values)

    def results(self, built: OnnxBuilt, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """The file in TFLite's interpreter, in its own process. Raises NoOwnResults for weights of other values."""
        import numpy as np

        # By their contents: each conversion gives the constants that it folds other names.
        contents = {np.asarray(value).tobytes() for value in values.values()}
        if other := [name for name, weight in built.values.items() if np.asarray(weight).tobytes() not in contents]:
            raise NoOwnResults(f"TFLite's interpreter takes the file's own weights, and {other[0]} has other values")
        with TemporaryFolder("tflite") as folder:
            place = Path(folder)
            inputs = [spec.name for spec in built.arguments if spec.role == "input"]
            np.savez(place / "inputs.npz", **{name: values[name] for name in inputs})
            task = {
                "path": source.path,
                "name": source.entry or source.name,
                "dtype": source.dtype,
                "folder": folder,
                "inputs": inputs,
            }
            outcome = call("opscope.models.frontends.through_onnx.from_tflite:interpret", task)
            sys.stderr.write(outcome.log.tail())
            if not isinstance(outcome.result, int):
                raise RuntimeError(outcome.log.last_line() or outcome.ending.kind)
            with np.load(place / "results.npz") as archive:
                arrays = [archive[f"arr_{index}"] for index in range(outcome.result)]
        return f"TFLite of {package_versions((), TENSORFLOW)}", arrays


FRONTEND = TfLite()
