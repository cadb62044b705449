"""TensorFlow Lite: tf2onnx converts the file to ONNX in its own process, and the ONNX exporter does the rest."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.children.call import call
from opscope.models.frontends import onnx
from opscope.models.frontends.base import ExportResult, Refused, Source
from opscope.models.frontends.jax import package_versions
from opscope.models.frontends.tf import ENVIRONMENT

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt

MAGIC = b"TFL3"
"""Bytes 4 to 8 of a TFLite file: its flatbuffer's identifier."""


@dataclass(frozen=True)
class TfLite:
    """The exporter of TFLite files."""

    name: str = "tflite"
    packages: tuple[str, ...] = ("tf2onnx", "tensorflow-cpu", "onnx", "torch-mlir")
    optional: tuple[str, ...] = ()
    extra: str = "tflite"
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)

    def build(self, source: Source) -> OnnxBuilt:
        """Returns the file's graph in ONNX. Float weights are arguments, integer ones constants."""
        path = Path(source.path)
        if path.suffix == ".tflite" and path.read_bytes()[4:8] != MAGIC:
            raise Refused(str(path), "a TFLite file", f"a file without {MAGIC.decode()} in bytes 4 to 8")
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "model.onnx"
            task = {"path": str(path), "name": source.entry or source.name, "dtype": source.dtype,
                    "output": str(output)}  # fmt: skip
            outcome = call("opscope.models.frontends.through_onnx.from_tflite:write_onnx", task)
            sys.stderr.write(outcome.log.tail())
            if not output.is_file():
                raise RuntimeError(f"tf2onnx: {outcome.log.last_line() or outcome.ending.kind}"[:300])
            return onnx.from_file(output, dict(source.shapes), where=str(path))

    def export(self, built: OnnxBuilt, source: Source) -> ExportResult:
        """Exports the graph as StableHLO."""
        result = onnx.FRONTEND.export(built, source)
        return ExportResult(result.bytecode, result.arguments, package_versions(self.packages), result.values)


FRONTEND = TfLite()
