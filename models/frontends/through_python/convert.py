"""A user's model, of whichever framework, as a function of named arrays with the values that it holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.models.arguments import ArgSpec, Built
from opscope.models.frontends.through_python.load import Loaded, framework


@dataclass(frozen=True)
class Converted:
    """A function that JAX can trace, and the values of its arguments."""

    built: Built
    values: Mapping[str, np.ndarray]
    framework: str
    own: Callable[[Mapping[str, np.ndarray]], tuple[str, list[Any]]] | None = None
    """From values of the arguments to what computed them and the results, where the framework is not JAX's."""


def convert(loaded: Loaded) -> Converted:
    """Takes the model by its framework. Raises what the framework raises."""
    kind = framework(loaded.model)
    if kind == "torch":
        return _torch(loaded)
    built, values = CONVERTERS[kind](loaded)
    return Converted(built, values, kind)


def _leaves(tree: Any, prefix: str, role: str) -> tuple[list[ArgSpec], dict[str, np.ndarray], Any]:
    """(arguments, values, structure) of a tree of arrays; a leaf of shape alone (ShapeDtypeStruct) has no value."""
    import jax

    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    specs, values = [], {}
    for path, leaf in paths:
        words = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
        name = ".".join([prefix, *words] if prefix else words)
        array = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
        if not isinstance(array, jax.ShapeDtypeStruct):
            values[name] = np.asarray(array)
            array = jax.numpy.asarray(array)
        specs.append(ArgSpec(name, tuple(array.shape), str(array.dtype), "", role))
    return specs, {s.name: values[s.name].astype(_kind(s.dtype)) for s in specs if s.name in values}, structure


def _kind(name: str) -> np.dtype:
    from opscope.models.seeding import dtype_of

    return dtype_of(name)


def _with_weights(loaded: Loaded, weights: Any, call: Callable[..., Any]) -> tuple[Built, dict[str, np.ndarray]]:
    """`call(weights, *inputs, **inputs)` as a function of the leaves of both."""
    import jax

    specs, values, structure = _leaves(weights, "", "parameter")
    trees = {name: _leaves(tree, name, "input") for name, tree in loaded.inputs.items()}

    def forward(w: Mapping[str, Any]) -> Any:
        def rebuilt(specs: Any, shape: Any) -> Any:
            return jax.tree_util.tree_unflatten(shape, [w[spec.name] for spec in specs])

        inputs_by_name = {name: rebuilt(specs_of_input, shape) for name, (specs_of_input, _, shape) in trees.items()}
        leaves = rebuilt(specs, structure)
        return call(leaves, *inputs_by_name.values()) if loaded.positional else call(leaves, **inputs_by_name)

    inputs = [spec for specs_of_input, _, _ in trees.values() for spec in specs_of_input]
    brought = {name: value for _, specs_of_input, _ in trees.values() for name, value in specs_of_input.items()}
    return Built(forward, (*specs, *inputs)), {**values, **brought}


def _jax(loaded: Loaded) -> tuple[Built, dict[str, np.ndarray]]:
    return _with_weights(loaded, (), lambda _, *args, **named: loaded.model(*args, **named))


def _equinox(loaded: Loaded) -> tuple[Built, dict[str, np.ndarray]]:
    import equinox

    arrays, static = equinox.partition(equinox.nn.inference_mode(loaded.model), equinox.is_array)
    return _with_weights(loaded, arrays, lambda p, *args, **named: equinox.combine(p, static)(*args, **named))


def _flax(loaded: Loaded) -> tuple[Built, dict[str, np.ndarray]]:
    from flax import nnx

    loaded.model.eval()
    # Keys of random numbers are no arrays; in eval mode nothing draws from them.
    graph, keys, state = nnx.split(loaded.model, nnx.RngState, ...)
    weights = nnx.to_pure_dict(state)

    def call(leaves: Any, *args: Any, **named: Any) -> Any:
        nnx.replace_by_pure_dict(state, leaves)
        return nnx.merge(graph, keys, state)(*args, **named)

    return _with_weights(loaded, weights, call)


def _keras(loaded: Loaded) -> tuple[Built, dict[str, np.ndarray]]:
    from opscope.models.frontends.keras import as_function, named_variables

    specs, values = [], {}
    for name, tree in loaded.inputs.items():
        specs_of_input, leaves, _ = _leaves(tree, name, "input")
        specs += specs_of_input
        values |= leaves
    built = as_function(loaded.model, specs)
    return built, {**{n: np.asarray(v.value) for n, v in named_variables(loaded.model).items()}, **values}


def _torch(loaded: Loaded) -> Converted:
    import torch

    from opscope.models.frontends import torch_eager, torch_trace
    from opscope.models.frontends.torch import TorchBuilt

    arrays = {name: _array(value) for name, value in loaded.inputs.items()}
    specs = [ArgSpec(n, a.shape, str(a.dtype), "", "input") for n, a in arrays.items()]
    module: Any = loaded.model
    with contextlib.suppress(NotImplementedError):  # what `torch.export` has made has its mode for good
        module.eval()
    weights, names = torch_trace.parameter_specs(module, {})
    torch_built = TorchBuilt(lambda: module, tuple(specs), positional=loaded.positional)
    call = torch_trace.by_trace(module, torch_built)

    def forward(w: Mapping[str, Any]) -> Any:
        leaves = {name: w[spec.name] for spec, name in zip(weights, names, strict=True)}
        return call(leaves, [w[spec.name] for spec in specs])

    state: dict[str, torch.Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    values = {s.name: _array(state[n]) for s, n in zip(weights, names, strict=True) if state[n].device.type != "meta"}
    argument_names = dict(zip([s.name for s in weights], names, strict=True))

    def own(w: Mapping[str, np.ndarray]) -> tuple[str, list[Any]]:
        return torch_eager.results(torch_trace.Called(module, torch_built), list(arrays), argument_names, w)

    return Converted(Built(forward, (*weights, *specs)), {**values, **arrays}, "torch", own)


def _array(value: Any) -> np.ndarray:
    """A torch tensor, or whatever NumPy takes, as an array; integers as wide as JAX has them."""
    if hasattr(value, "detach"):
        import torch

        value = value.detach().cpu()
        if value.dtype is torch.bfloat16:
            return value.view(torch.int16).numpy().view(_kind("bfloat16"))
        value = value.numpy()
    array = np.asarray(value)
    return array.astype({"int64": "int32", "float64": "float32"}.get(array.dtype.name, array.dtype))


CONVERTERS: dict[str, Callable[[Loaded], tuple[Built, dict[str, np.ndarray]]]] = {
    "jax": _jax,
    "equinox": _equinox,
    "flax": _flax,
    "keras": _keras,
}
"""Framework on JAX -> the function that converts its models."""
