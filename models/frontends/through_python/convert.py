"""A user's model, of whichever framework, as a function of named arrays with the values that it holds."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from opscope.models.arguments import ArgSpec, Built
from opscope.models.frontends.base import Refused
from opscope.models.frontends.through_python.load import Fixed, Loaded, framework, named_objects


@dataclass(frozen=True)
class Converted:
    """A model with the values of its arguments."""

    arguments: tuple[ArgSpec, ...]
    built: Callable[[], Built]
    """Makes a function of it that JAX can trace."""
    values: Mapping[str, np.ndarray]
    framework: str
    own: Callable[[Mapping[str, np.ndarray]], tuple[str, list[Any]]] | None = None
    """From values of the arguments to what computed them and the results, where the framework is not JAX's."""
    lowered: Callable[[], bytes] | None = None
    """Its StableHLO by torch-mlir, where it is a module of PyTorch."""


def convert(loaded: Loaded) -> Converted:
    """Takes the model by its framework. Raises what the framework raises."""
    kind = framework(loaded.model)
    if kind == "torch" or (kind == "jax" and any(framework(value) == "torch" for value in loaded.inputs.values())):
        return _torch(loaded)
    built, values = CONVERTERS[kind](loaded)
    return Converted(built.arguments, lambda: built, values, kind)


Again = Callable[[Mapping[str, Any]], Any]
"""From argument -> value to the tree that holds these."""


def _leaves(tree: Any, prefix: str, role: str) -> tuple[list[ArgSpec], dict[str, np.ndarray], Again]:
    """(arguments, values, tree again) of a tree of arrays; a leaf of shape alone (ShapeDtypeStruct) has no value, and
    one that is no array stays as it is."""
    import jax

    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    specs, values = [], {}
    leaves: list[tuple[str, Any]] = []
    for path, leaf in paths:
        if is_static(leaf):
            leaves.append(("", leaf.value if isinstance(leaf, Fixed) else leaf))
            continue
        words = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
        name = ".".join([prefix, *words] if prefix else words)
        array = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
        if not isinstance(array, jax.ShapeDtypeStruct):
            values[name] = np.asarray(array)
            array = jax.numpy.asarray(array)
        specs.append(ArgSpec(name, tuple(array.shape), str(array.dtype), "", role))
        leaves.append((name, None))

    def again(w: Mapping[str, Any]) -> Any:
        return jax.tree_util.tree_unflatten(structure, [w[name] if name else leaf for name, leaf in leaves])

    return specs, {s.name: values[s.name].astype(_kind(s.dtype)) for s in specs if s.name in values}, again


def is_static(leaf: Any) -> bool:
    """Whether an example input is no array: a bool, an int, a string, an enum, None, a function, or what the file calls
    static."""
    if leaf is None or isinstance(leaf, bool | int | str | bytes | Enum | Fixed):
        return True
    return callable(leaf) and not hasattr(leaf, "dtype")


def _kind(name: str) -> np.dtype:
    from opscope.models.seeding import dtype_of

    return dtype_of(name)


def _jax(loaded: Loaded) -> tuple[Built, dict[str, np.ndarray]]:
    """Any callable of JAX, Equinox's and Flax's modules too, as a function of the arrays that it holds and of its
    inputs."""
    from opscope.models.frontends.through_python.held import take

    held: dict[str, Any] = {}
    model = take(loaded.model, "", held)
    weights = [_leaves(array, name, "parameter") for name, array in held.items()]
    trees = {name: _leaves(tree, name, "input") for name, tree in loaded.inputs.items()}

    forward = _called(loaded, {name: again for name, (_, _, again) in trees.items()}, model)
    taken = [*weights, *trees.values()]
    specs = [spec for specs_of_tree, _, _ in taken for spec in specs_of_tree]
    return Built(forward, tuple(specs)), {name: value for _, values, _ in taken for name, value in values.items()}


def _keras(loaded: Loaded) -> tuple[Built, dict[str, np.ndarray]]:
    import keras

    from opscope.models.frontends.keras import as_function, call_arguments, named_variables, of_callable

    specs, values, whole = [], {}, {}
    for name, tree in loaded.inputs.items():
        specs_of_input, leaves, whole[name] = _leaves(tree, name, "input")
        specs += specs_of_input
        values |= leaves
    fixed = [*loaded.keywords, *(name for name, tree in loaded.inputs.items() if is_static(tree))]
    if isinstance(loaded.model, keras.Layer):
        if fixed:
            hint = "a function that calls the model"
            raise Refused("keras", "arrays as inputs of a keras.Model", ", ".join(fixed), hint)
        if not loaded.model.built:
            args, named = call_arguments(loaded.model, values)
            loaded.model(*args, **named)
        owners, built = [loaded.model], as_function(loaded.model, specs)
    else:
        owners, call = _layers(loaded.model), _called(loaded, whole)
        if not all(owner.built for owner in owners):
            call(values)
        built = of_callable(call, owners, specs)
    return built, {**{n: np.asarray(v.value) for n, v in named_variables(*owners).items()}, **values}


def _layers(called: Any) -> list[Any]:
    """The layers and models of Keras behind a method, a partial, a function."""
    import keras

    if isinstance(called, keras.Layer):
        return [called]
    if isinstance(called, MethodType):
        return _layers(called.__self__)
    if isinstance(called, functools.partial):
        return _layers(called.func)
    return [value for value in named_objects(called).values() if isinstance(value, keras.Layer)]


def _called(loaded: Loaded, trees: Mapping[str, Again], model: Again | None = None) -> Again:
    """From argument -> value to the results of the model, or of what `model` makes of it, on the inputs made again."""

    def call(w: Mapping[str, Any]) -> Any:
        inputs = {name: again(w) for name, again in trees.items()}
        function = model(w) if model else loaded.model
        if loaded.positional:
            return function(*inputs.values(), **loaded.keywords)
        return function(**inputs, **loaded.keywords)

    return call


def _torch(loaded: Loaded) -> Converted:
    import jax
    import torch

    from opscope.models.frontends import torch_eager, torch_modules
    from opscope.models.frontends.torch import TorchBuilt

    inputs = jax.tree.map(lambda leaf: leaf if is_static(leaf) else _array(leaf), dict(loaded.inputs))
    trees = {name: _leaves(inputs[name], name, "input") for name in loaded.inputs}
    specs = [spec for specs_of_tree, _, _ in trees.values() for spec in specs_of_tree]
    arrays = {name: value for _, values, _ in trees.values() for name, value in values.items()}
    module: Any = loaded.model
    keywords = loaded.keywords
    while not isinstance(module, torch.nn.Module):
        if isinstance(module, functools.partial):
            if module.args:
                raise Refused("functools.partial", "arguments by name", f"{len(module.args)} in order", "name=value")
            keywords, module = {**module.keywords, **keywords}, module.func
        elif isinstance(module, MethodType) and isinstance(module.__self__, torch.nn.Module):
            module = _called_by(module.__func__, module.__self__)
        else:
            module = _by_function(module)
    plain = [*arrays] == [*loaded.inputs]
    if not plain:  # lists of tensors, None, ...

        def on_trees(own: torch.nn.Module, *flat: torch.Tensor, **named: Any) -> Any:
            tensors = dict(zip(arrays, flat, strict=True))
            values = {name: again(tensors) for name, (_, _, again) in trees.items()}
            return own.forward(*values.values(), **named) if loaded.positional else own.forward(**values, **named)

        module = _called_by(on_trees, module)
    with contextlib.suppress(NotImplementedError):  # what `torch.export` has made has its mode for good
        module.eval()
    weights, names = torch_modules.parameter_specs(module, {})
    torch_built = TorchBuilt(lambda: module, tuple(specs), positional=loaded.positional or not plain, keywords=keywords)

    def traced() -> Built:
        from opscope.models.frontends import torch_trace

        call = torch_trace.by_trace(module, torch_built)

        def forward(w: Mapping[str, Any]) -> Any:
            leaves = {name: w[spec.name] for spec, name in zip(weights, names, strict=True)}
            return call(leaves, [w[spec.name] for spec in specs])

        return Built(forward, (*weights, *specs))

    def lowered() -> bytes:
        from opscope.models.frontends import torch_export

        return torch_export.lower(module, torch_built, weights, names)

    state: dict[str, torch.Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    values = {s.name: _array(state[n]) for s, n in zip(weights, names, strict=True) if state[n].device.type != "meta"}
    argument_names = dict(zip([s.name for s in weights], names, strict=True))

    def own(w: Mapping[str, np.ndarray]) -> tuple[str, list[Any]]:
        return torch_eager.results(torch_modules.Called(module, torch_built), list(arrays), argument_names, w)

    return Converted((*weights, *specs), traced, {**values, **arrays}, "torch", own, lowered)


def _called_by(function: Callable[..., Any], module: Any) -> Any:
    """A copy of a module of PyTorch whose forward pass is a function of it, which may call the module's own."""
    made = copy.copy(module)  # the user's stays as it is
    before = vars(made).get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        del made.forward
        if before is not None:
            made.forward = before
        try:
            return function(made, *args, **kwargs)
        finally:
            made.forward = forward

    made.forward = forward
    return made


def _by_function(function: Any) -> Any:
    """A function of PyTorch's tensors as a module, whose parts are the modules that the function names."""
    import torch

    module = torch.nn.Module()
    held = named_objects(function) if isinstance(function, FunctionType) else {}
    for name, value in held.items():
        if isinstance(value, torch.nn.Module):
            module.add_module(name, value)
    module.forward = function
    return module


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
    "equinox": _jax,
    "flax": _jax,
    "keras": _keras,
}
"""Framework on JAX -> the function that converts its models."""
