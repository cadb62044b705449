"""Runs a user's file and finds the model and its example inputs in it.

The object is `model`, or what stands behind the colon. It may be
  - a function without arguments, or a class: what it returns is the model, or (model, example inputs);
  - a function of arrays, a torch.nn.Module, a keras.Model, a Flax (nnx) or Equinox module: the model itself.
Example inputs not returned beside the model are the module's `example_inputs`: an array, a tuple of arrays, a mapping
of names to arrays, or a function that returns one of these.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.models.frontends.base import Refused

DEFAULT, EXAMPLES = "model", "example_inputs"


@dataclass(frozen=True)
class Loaded:
    """A user's model."""

    model: Any
    inputs: Mapping[str, Any]
    """Name -> array or tree of arrays, in the order in which the model takes them."""
    positional: bool
    """Whether the model takes them in order; else by name."""


def load(path: Path, name: str) -> Loaded:
    """The model `name` of a file. Raises Refused: no such object, no inputs; else what the file raises."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"opscope_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    wanted = name or DEFAULT
    if not hasattr(module, wanted):
        own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == spec.name]
        hint = f"{path.name}:{own[0]}" if own else f"a function {DEFAULT}() that returns (model, inputs)"
        raise Refused(f"--model {path}", f"an object {wanted!r} in the file", f"{', '.join(own) or 'none'}", hint)
    value = getattr(module, wanted)
    inputs: Any = None
    if inspect.isclass(value) or (inspect.isfunction(value) and not _required(value)):
        value = value()
        if isinstance(value, tuple) and len(value) == 2:
            value, inputs = value
    if not callable(value):
        raise Refused(f"--model {path}", "a model that can be called", f"{type(value).__name__} from {wanted!r}")
    if inputs is None:
        inputs = getattr(module, EXAMPLES, None)
        inputs = inputs() if inspect.isfunction(inputs) else inputs
    if inputs is None:
        hint = f"{EXAMPLES} = (array, ...) in the file, or return (model, inputs)"
        raise Refused(f"--model {path}", "example inputs of the model", "none", hint)
    if isinstance(inputs, Mapping):
        return Loaded(value, dict(inputs), positional=False)
    values = inputs if isinstance(inputs, tuple | list) else (inputs,)
    return Loaded(value, dict(zip(input_names(value, len(values)), values, strict=True)), positional=True)


def _required(function: Any) -> list[str]:
    """Parameters that have to be given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]


def input_names(model: Any, count: int) -> list[str]:
    """A name for each positional input: the parameters of the function, or of a module's forward or call."""
    function = model if inspect.isfunction(model) else getattr(model, "forward", None) or getattr(model, "call", model)
    try:
        own = [n for n in inspect.signature(function).parameters if n not in ("self", "args", "kwargs")]
    except (TypeError, ValueError):
        own = []
    return [own[i] if i < len(own) else f"input{i}" for i in range(count)]


def framework(model: Any) -> str:
    """`torch`, `keras`, `flax`, `equinox`, or `jax` for any other callable, by the classes that it derives from."""
    roots = {(c.__module__ or "").partition(".")[0]: c.__name__ for c in type(model).__mro__}
    for root in ("torch", "keras", "flax", "equinox"):
        if root in roots:
            return root
    return "jax"
