"""What a framework itself computes: `python -P -m opscope.models.tests.framework_results NAME FOLDER OUT.npz`.

FOLDER is what the exporter handed over: it names the arguments, whose values are drawn by seed or lie in it. Each
framework runs the model without XLA and without any code of the route that exported it: Keras on its TensorFlow
backend (the route takes the JAX one), TensorFlow eagerly, a GraphDef in a session, TFLite in its interpreter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.models import registry
from opscope.models.frontends import child
from opscope.models.frontends.base import ExportResult
from opscope.models.seeding import draw

Arrays = Mapping[str, np.ndarray]


def values(result: ExportResult) -> dict[str, np.ndarray]:
    """A value for each argument, by name: the file's own, else drawn from its distribution."""
    return {
        spec.name: np.load(result.files[spec.name])
        if spec.name in result.files
        else draw(spec.law or "normal:1", spec.shape, spec.dtype, 0, index)
        for index, spec in enumerate(result.arguments)
    }


def of_keras(name: str, arrays: Arrays) -> Sequence[Any]:
    """On the TensorFlow backend, with variables that are set one by one."""
    import keras

    from opscope.models.frontends import keras as route

    made: dict[str, Any] = {}

    def functional(make: Callable[[], Any], inputs: Sequence[Any], laws: object = ()) -> None:
        made.update(make=make, inputs=inputs)

    own = route.functional
    for module in [*sys.modules.values()]:  # a model's file has imported it by name
        if vars(module).get("functional") is own:
            vars(module)["functional"] = functional
    assert keras.backend.backend() == "tensorflow"
    registry.get(name).build("float32")
    model = made["make"]()
    for label, variable in route.named_variables(model).items():
        variable.assign(arrays[label])
    inputs = [arrays[spec.name] for spec in made["inputs"]]
    result = model(inputs[0] if len(inputs) == 1 else inputs, training=False)
    return result if isinstance(result, list | tuple) else [result]


def of_tf(name: str, arrays: Arrays) -> Sequence[Any]:
    """Op by op."""
    import tensorflow as tf

    result = registry.get(name).build("float32").forward({key: tf.constant(value) for key, value in arrays.items()})
    return tf.nest.flatten(result)


def of_graphdef(name: str, arrays: Arrays) -> Sequence[Any]:
    """In a session of the old kind."""
    import tensorflow as tf

    from opscope.models.frontends.through_tf.graph_def import NO_RESULT

    definition = tf.compat.v1.GraphDef.FromString(registry.get(name).build("float32"))
    read = {word.lstrip("^").partition(":")[0] for node in definition.node for word in node.input}
    last = [n.name for n in definition.node if n.name not in read and n.op not in NO_RESULT]
    fed = {f"{n.name}:0": arrays[n.name] for n in definition.node if n.op == "Placeholder"}
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.import_graph_def(definition, name="")
        return session.run([f"{label}:0" for label in last], fed)


def of_tflite(name: str, arrays: Arrays) -> Sequence[Any]:
    """In TFLite's interpreter, by its reference kernels."""
    import tensorflow as tf

    lite: Any = tf.lite
    plain = lite.experimental.OpResolverType.BUILTIN_REF
    interpreter = lite.Interpreter(
        model_content=registry.get(name).build("float32"), experimental_op_resolver_type=plain
    )
    interpreter.allocate_tensors()
    for place in interpreter.get_input_details():
        inputs = [value for value in arrays.values() if value.shape == tuple(place["shape"])]
        interpreter.set_tensor(place["index"], inputs[0])
    interpreter.invoke()
    return [interpreter.get_tensor(place["index"]) for place in interpreter.get_output_details()]


FRAMEWORKS: dict[str, Callable[[str, Arrays], Sequence[Any]]] = {
    "keras": of_keras,
    "tf": of_tf,
    "graphdef": of_graphdef,
    "tflite": of_tflite,
}


def main(name: str, folder: str, output: str) -> None:
    """Writes the results of a model, in order."""
    os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    results = FRAMEWORKS[registry.get(name).framework](name, values(child.read(Path(folder))))
    np.savez(output, *(np.asarray(result) for result in results))


if __name__ == "__main__":
    main(*sys.argv[1:])
