"""A program per framework: wraps a small model, runs it on a card, and compares with the framework's own results."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pybuda

X = np.random.default_rng(1).standard_normal((2, 32)).astype(np.float32)


def torch():
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 16))
    return pybuda.PyTorchModule("net", model), model(torch.from_numpy(X)).detach().numpy()


def keras():
    import os

    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, "tanh"), keras.layers.Dense(16)])
    return pybuda.TFModule("net", model), np.asarray(model(X))


def subclassed(backend="jax"):
    """A model whose `call` takes inputs one after the other."""
    import os

    os.environ["KERAS_BACKEND"] = backend
    import keras

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = keras.layers.Dense(16), keras.layers.Dense(16)

        def call(self, x1, x2, training=None):
            return self.first(x1) - self.second(x2)

    model = Net()
    return pybuda.TFModule("net", model), np.asarray(model(X, X))


def subclassed_tensorflow():
    return subclassed("tensorflow")


def tensorflow():
    import tensorflow as tf

    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(np.random.default_rng(2).standard_normal((32, 16)).astype(np.float32) / 6)

        def __call__(self, x):
            return tf.tanh(x @ self.w)

    model = Net()
    return pybuda.TFModule("net", model), model(X).numpy()


def graphdef():
    import tensorflow as tf

    weights = np.random.default_rng(2).standard_normal((32, 16)).astype(np.float32) / 6
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (2, 32), "x")
        tf.tanh(x @ tf.constant(weights), name="y")
    return pybuda.TFGraphDefModule("net", graph.as_graph_def(), "net.pb", ["y"]), np.tanh(X @ weights)


def onnx():
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(2).standard_normal((32, 16)).astype(np.float32) / 6
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 32))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 16))],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    return pybuda.OnnxModule("net", model, "net.onnx"), np.tanh(X @ weights)


def tflite():
    import tensorflow as tf

    weights = np.random.default_rng(2).standard_normal((32, 16)).astype(np.float32) / 6

    @tf.function(input_signature=[tf.TensorSpec((2, 32), tf.float32)])
    def net(x):
        return tf.tanh(x @ tf.constant(weights))

    data = tf.lite.TFLiteConverter.from_concrete_functions([net.get_concrete_function()]).convert()
    path = Path(tempfile.mkdtemp()) / "net.tflite"
    path.write_bytes(data)
    return pybuda.TFLiteModule("net", None, str(path)), np.tanh(X @ weights)


if __name__ == "__main__":
    module, expected = globals()[sys.argv[1]]()
    pybuda.TTDevice("tt0", arch=pybuda.BackendDevice.Wormhole_B0, module=module)
    given = X
    if sys.argv[1] == "torch":
        import torch

        given = torch.from_numpy(X)
    inputs = (given,) * (2 if "subclassed" in sys.argv[1] else 1)
    got = pybuda.run_inference(inputs=[inputs]).get()[0]
    assert isinstance(got.value(), type(given)), type(got.value())
    print("largest difference", np.abs(got.numpy() - expected).max())
    assert np.allclose(got.numpy(), expected, atol=0.05)
