"""A process of its own that makes ONNX of TFLite: `python -P -m models.frontends.through_onnx.from_tflite`.

Reads JSON on stdin: `path` (a `.tflite` file, or Python with a `@model` that returns TFLite's bytes), `name`, `dtype`,
`output`. TensorFlow lives and dies in here, since torch-mlir may not be in one process with it.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

OPSET = 18


def main() -> int:
    """Writes the ONNX file; raises what the model, TensorFlow or tf2onnx raises."""
    task = json.load(sys.stdin)
    path, output = Path(task["path"]), Path(task["output"])
    if path.suffix != ".tflite":
        from models import registry

        data = registry.add_file_model(path, task["name"]).build(task["dtype"])
        path = output.with_suffix(".tflite")
        path.write_bytes(data)
    warnings.simplefilter("ignore")
    from tf2onnx import convert

    convert.from_tflite(str(path), opset=OPSET, output_path=str(output))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
