"""Runs a user's file and finds the model and its example inputs in it.

The object is what stands behind the colon, else `model`, else the only thing that the file defines and that can be
called. It may be
  - a function without arguments, or a class: what it returns is the model, or (model, example inputs);
  - a function of arrays, a torch.nn.Module, a keras.Model, a Flax (nnx) or Equinox module: the model itself.
Example inputs not returned beside the model are the module's `example_inputs`: an array, a tuple of arrays, a mapping
of names to arrays, or a function that returns one of these. Bools, ints, strings, enums, None and functions among them
stay as they are, as with `eqx.filter_jit`, `nnx.jit` and `torch.export`; so do the inputs that the file's `static`, a
set, names. If that is a mapping, it holds further arguments, by name.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from opscope.models.frontends.base import Refused

DEFAULT, EXAMPLES, STATIC = "model", "example_inputs", "static"


@dataclass(frozen=True)
class Fixed:
    """An example input that is no argument of the program."""

    value: Any


@dataclass(frozen=True)
class Loaded:
    """A user's model."""

    model: Any
    inputs: Mapping[str, Any]
    """Name -> array or tree of arrays, in the order in which the model takes them."""
    positional: bool
    """Whether the model takes them in order; else by name."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the model, which stay as they are."""


def load(path: Path, name: str) -> Loaded:
    """The model `name` of a file. Raises Refused: no such object, no inputs; else what the file raises."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"opscope_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == spec.name]
    own = [n for n in own if n != EXAMPLES and not n.startswith("_")]
    wanted = name or (own[0] if len(own) == 1 and not hasattr(module, DEFAULT) else DEFAULT)
    if not hasattr(module, wanted):
        hint = f"{path.name}:{own[0]}" if own else f"a function {DEFAULT}() that returns (model, inputs)"
        raise Refused(f"--model {path}", f"an object {wanted!r} in the file", f"{', '.join(own) or 'none'}", hint)
    value = getattr(module, wanted)
    inputs: Any = None
    if inspect.isclass(value) or (inspect.isfunction(value) and not _required(value)):
        value = value()
        if isinstance(value, tuple) and len(value) == 2:
            value, inputs = value
    value = getattr(value, "_orig_mod", value)  # of `torch.compile`
    value = value.module() if type(value).__name__ == "ExportedProgram" else value  # of `torch.export`
    if not callable(value):
        raise Refused(f"--model {path}", "a model that can be called", f"{type(value).__name__} from {wanted!r}")
    if inputs is None:
        inputs = getattr(module, EXAMPLES, None)
        inputs = inputs() if inspect.isfunction(inputs) else inputs
    if inputs is None:
        hint = f"{EXAMPLES} = (array, ...) in the file, or return (model, inputs)"
        raise Refused(f"--model {path}", "example inputs of the model", "none", hint)
    positional = not isinstance(inputs, Mapping)
    if positional:
        values = inputs if isinstance(inputs, tuple | list) else (inputs,)
        inputs = dict(zip(input_names(value, len(values)), values, strict=True))
    return _with_static(Loaded(value, dict(inputs), positional), getattr(module, STATIC, None), path)


def _with_static(loaded: Loaded, static: Any, path: Path) -> Loaded:
    """The model with what its file calls static. Raises Refused for a name that cannot be."""
    inputs = loaded.inputs
    if isinstance(static, Mapping) and all(isinstance(name, str) for name in static):
        if twice := inputs.keys() & static.keys():
            got = f"{', '.join(sorted(twice))} in both"
            raise Refused(f"{path}: {STATIC}", f"what is not in {EXAMPLES}", got, f"{STATIC} = {sorted(twice)!r}")
        return Loaded(loaded.model, inputs, loaded.positional, dict(static))
    if isinstance(static, Set | list | tuple) and all(isinstance(name, str) for name in static):
        if unknown := sorted(set(static) - inputs.keys()):
            raise Refused(f"{path}: {STATIC}", f"names of inputs ({', '.join(inputs)})", ", ".join(unknown))
        fixed = {name: Fixed(value) if name in static else value for name, value in inputs.items()}
        return Loaded(loaded.model, fixed, loaded.positional)
    return loaded


def _required(function: Any) -> list[str]:
    """Parameters that have to be given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]


def input_names(model: Any, count: int) -> list[str]:
    """A name for each positional input: the parameters of the function, or of a module's forward or call."""
    given: set[str] = set()
    while isinstance(model, partial) and not model.args:
        given, model = given | model.keywords.keys(), model.func
    function = model if inspect.isfunction(model) else getattr(model, "forward", None) or getattr(model, "call", model)
    try:
        own = [n for n in inspect.signature(function).parameters if n not in {"self", "args", "kwargs", *given}]
    except (TypeError, ValueError):
        own = []
    return [own[i] if i < len(own) else f"input{i}" for i in range(count)]


def named_objects(function: FunctionType) -> dict[str, Any]:
    """PyTorch's and Keras's objects that a function, or one that it calls, names from outside itself."""
    found: dict[str, Any] = {}
    seen, todo = {function}, [function]
    while todo:
        try:
            outside = inspect.getclosurevars(todo.pop())
        except ValueError:  # one of them has no value yet
            continue
        for name, value in {**outside.globals, **outside.nonlocals}.items():
            if isinstance(value, FunctionType) and value not in seen:
                seen.add(value)
                todo.append(value)
            elif not isinstance(value, FunctionType | type) and framework(value) in ("torch", "keras"):
                found[name] = value
    return found


def framework(model: Any) -> str:
    """`torch`, `keras`, `flax`, `equinox`, or `jax` for any other callable, by the classes that it derives from.

    A partial is its function's, a method its object's, a function that of PyTorch or Keras objects that it names."""
    if isinstance(model, partial):
        return framework(model.func)
    if isinstance(model, MethodType):
        return framework(model.__self__)
    if isinstance(model, FunctionType):
        return next(map(framework, named_objects(model).values()), "jax")
    roots = {(c.__module__ or "").partition(".")[0]: c.__name__ for c in type(model).__mro__}
    for root in ("torch", "keras", "flax", "equinox"):
        if root in roots:
            return root
    return "jax"
