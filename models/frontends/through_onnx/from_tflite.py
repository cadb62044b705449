"""Converts TFLite to ONNX in its own child process.

Its task: `path` (a `.tflite` file, or Python with a `@model` that returns TFLite's bytes), `name`, `dtype`, `output`.
TensorFlow is imported only in this process, because torch-mlir cannot be in one process with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent

OPSET = 18


def write_onnx(parent: Parent) -> None:
    """Writes the ONNX file; raises what the model, TensorFlow or tf2onnx raises."""
    task = parent.task()
    path, output = Path(task["path"]), Path(task["output"])
    if path.suffix != ".tflite":
        data = _file(task)
        path = output.with_suffix(".tflite")
        path.write_bytes(data)
    warnings.simplefilter("ignore")
    from tf2onnx import convert

    _keep_biases()
    convert.from_tflite(str(path), opset=OPSET, output_path=str(output))


def _file(task: Mapping[str, Any]) -> bytes:
    """The bytes of a file, or those that a model of ours makes."""
    path = Path(task["path"])
    if path.suffix == ".tflite":
        return path.read_bytes()
    from opscope.models import registry

    return registry.add_file_model(path, task["name"]).build(task["dtype"])


def interpret(parent: Parent) -> int:
    """Runs the file in TFLite's interpreter, by its reference kernels; returns the number of results.

    Its task: as for `write_onnx`, and `folder` with inputs.npz, whose arrays are named as `inputs` says, in the order
    of the graph. The results are results.npz, in the file's order.
    """
    import numpy as np
    import tensorflow as tf

    task = parent.task()
    folder, lite = Path(task["folder"]), tf.lite
    kernels = lite.experimental.OpResolverType.BUILTIN_REF
    interpreter = lite.Interpreter(model_content=_file(task), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    places = interpreter.get_input_details()
    names = [place["name"] for place in places]
    with np.load(folder / "inputs.npz") as archive:
        for place, fallback in zip(places, task["inputs"], strict=True):
            # tf2onnx keeps the names; a name that it had to change is found by its place.
            name = place["name"] if set(names) == set(task["inputs"]) else fallback
            interpreter.set_tensor(place["index"], archive[name].astype(place["dtype"]).reshape(place["shape"]))
    interpreter.invoke()
    results = [interpreter.get_tensor(place["index"]) for place in interpreter.get_output_details()]
    np.savez(folder / "results.npz", *results)
    return len(results)


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
                flat = ctx.make_node(
                    "Reshape", [node.input[0], extents], shapes=[shape], dtypes=[ctx.get_dtype(node.input[0])]
                )
                flat.skip_conversion = True
                ctx.replace_inputs(node, [flat.output[0], *node.input[1:]])
            super().to_tf(ctx, node, **kwargs)

    assert FullyConnected
