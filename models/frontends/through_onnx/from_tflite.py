"""Converts TFLite to ONNX in its own child process.

Its task: `path` (a `.tflite` file, or Python with a `@model` that returns TFLite's bytes), `name`, `dtype`, `output`.
TensorFlow is imported only in this process, because torch-mlir cannot be in one process with it.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent

OPSET = 18


def write_onnx(parent: Parent) -> None:
    """Writes the ONNX file; raises what the model, TensorFlow or tf2onnx raises."""
    task = parent.task()
    path, output = Path(task["path"]), Path(task["output"])
    if path.suffix != ".tflite":
        from opscope.models import registry

        data = registry.add_file_model(path, task["name"]).build(task["dtype"])
        path = output.with_suffix(".tflite")
        path.write_bytes(data)
    warnings.simplefilter("ignore")
    from tf2onnx import convert

    _keep_biases()
    convert.from_tflite(str(path), opset=OPSET, output_path=str(output))


def _keep_biases() -> None:
    """Flattens inputs of fully connected ops before tf2onnx does, because tf2onnx then loses the bias."""
    import numpy as np
    from tf2onnx import utils
    from tf2onnx.handler import tfl_op
    from tf2onnx.tflite_handlers.tfl_math import TflFullyConnectedOp

    @tfl_op(["TFL_FULLY_CONNECTED"])
    class FullyConnected(TflFullyConnectedOp):
        @classmethod
        def to_tf(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
            if node.attr["keep_num_dims"].i == 0 and ctx.get_rank(node.input[0]) != 2:
                shape = [-1, ctx.get_shape(node.input[1])[1]]
                extents = ctx.make_const(utils.make_name("flat"), np.array(shape, np.int64)).output[0]
                flat = ctx.make_node("Reshape", [node.input[0], extents], shapes=[shape],
                                     dtypes=[ctx.get_dtype(node.input[0])])  # fmt: skip
                flat.skip_conversion = True
                ctx.replace_inputs(node, [flat.output[0], *node.input[1:]])
            super().to_tf(ctx, node, **kwargs)

    assert FullyConnected
