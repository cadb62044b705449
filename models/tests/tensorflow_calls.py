"""Models of TensorFlow that call Python or print, as functions and as a SavedModel: what their exports are, as JSON.

`python -P -m opscope.models.tests.tensorflow_calls FOLDER`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from opscope.models.arguments import ArgSpec
from opscope.models.frontends.base import Refused
from opscope.models.frontends.through_tf import saved_model
from opscope.models.frontends.through_tf.built import TfBuilt
from opscope.models.frontends.through_tf.lower import lower
from opscope.models.frontends.through_tf.own_kernels import results

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
SPEC = ArgSpec("x", X.shape, "float32", "normal:1", "input")
WEIGHT = tf.Variable(np.diag([1.0, 2, 3, 4]).astype(np.float32), name="w")


def sine(x: Any) -> Any:
    """TensorFlow's product, and NumPy's sine of it."""
    return tf.ensure_shape(tf.numpy_function(np.sin, [tf.matmul(x, WEIGHT)], tf.float32), X.shape)


def two(x: Any) -> Any:
    """A call of what another gives, and one that only shows it."""
    inner = sine(x)
    tf.print("so far", tf.reduce_sum(inner))
    tf.py_function(lambda y: None, [inner], [])
    return tf.ensure_shape(tf.py_function(lambda y: 2 * y, [inner], tf.float32), X.shape) + x


def nested(x: Any) -> Any:
    """A call in a function that is called."""
    return tf.function(sine)(x) + 1


def shows_in_a_loop(x: Any) -> Any:
    """A loop that prints in each step."""

    def step(number: Any, y: Any) -> Any:
        tf.print("step", number)
        return number + 1, 2 * y

    return tf.while_loop(lambda number, _: number < 3, step, [0, x])[1]


def calls_in_a_loop(x: Any) -> Any:
    """A loop that calls Python in each step."""
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 0, lambda y: [sine(y)], [x])[0]


def of_any_shape(x: Any) -> Any:
    """A call whose result nobody gives a shape."""
    return tf.reduce_sum(tf.numpy_function(np.sin, [x], tf.float32))


def told(built: TfBuilt) -> dict[str, Any]:
    """The export of a model: arguments, which have values, notes, the largest error of its own results."""
    try:
        bytecode, lowered = lower(built, "m")
    except Refused as refused:
        return {"refused": str(refused)}
    values = {spec.name: lowered.values.get(spec.name, X) for spec in lowered.arguments}
    return {
        "arguments": [spec.name for spec in lowered.arguments],
        "values": sorted(lowered.values),
        "notes": lowered.notes,
        "calls": b"PyFunc" in bytecode,
        "own": [array.tolist() for array in results(built, values)],
    }


def main(folder: Path) -> None:
    """Prints what becomes of each model."""
    models: tuple[Callable[[Any], Any], ...]
    models = (sine, two, nested, shows_in_a_loop, calls_in_a_loop, of_any_shape)
    found = {model.__name__: told(TfBuilt(model, (SPEC,), {"x": X})) for model in models}
    module = tf.Module()
    module.w, module.f = WEIGHT, tf.function(two, input_signature=[tf.TensorSpec(X.shape, tf.float32, "x")])
    tf.saved_model.save(module, str(folder))
    print(json.dumps(found))


def again(folder: Path) -> None:
    """Prints what becomes of the SavedModel, which another process has made."""
    print(json.dumps(told(saved_model.load(folder, "", {}))))


if __name__ == "__main__":
    (again if sys.argv[2:] else main)(Path(sys.argv[1]))
