"""The arrays that a callable of JAX holds, taken out of it, and the callable again with others in their place.

An Equinox module, a Flax (nnx) one, which is put into eval mode, or one of these behind a `functools.partial`, a bound
method, or a function that names it from outside itself. Imports jax.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax

from opscope.models.frontends.through_python.load import framework

Again = Callable[[Mapping[str, Any]], Any]
"""From name -> array to the object that holds these."""

JITTED = type(jax.jit(len))
"""The class of what `jax.jit` returns, which has no public name."""


def take(value: Any, name: str, found: dict[str, Any], *, weights_alone: bool = False) -> Again:
    """Puts the arrays that `value` holds into `found`, by their place below `name`; returns what makes it again.

    Of what a function names, a user's program may need the value of integers, booleans and scalars: with
    `weights_alone`, only other arrays are taken.
    """
    kind = framework(value)
    if isinstance(value, partial):
        function = take(value.func, name, found, weights_alone=weights_alone)
        args = take(list(value.args), _below(name, "args"), found, weights_alone=True)
        keywords = take(dict(value.keywords), name, found, weights_alone=True)
        return lambda arrays: partial(function(arrays), *args(arrays), **keywords(arrays))
    if isinstance(value, types.MethodType):
        owner = take(value.__self__, name, found)
        return lambda arrays: types.MethodType(value.__func__, owner(arrays))
    if isinstance(value, types.FunctionType):
        return _take_of_function(value, name, found)
    if isinstance(value, JITTED) and isinstance(value.__wrapped__, types.FunctionType):
        before = len(found)
        function = _take_of_function(value.__wrapped__, name, found)
        return function if len(found) > before else _same(value)
    if kind == "flax" and hasattr(value, "eval"):
        return _take_of_nnx(value, name, found)
    if kind == "equinox":
        import equinox

        value, weights_alone = equinox.nn.inference_mode(value), False
    paths, structure = jax.tree_util.tree_flatten_with_path(value)
    leaves = []
    for path, leaf in paths:
        words = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
        if not _is_array(leaf, weights_alone):
            nested = leaf is not value and isinstance(leaf, partial | types.MethodType | types.FunctionType)
            leaves.append(take(leaf, _below(name, *words), found) if nested and kind != "equinox" else _same(leaf))
            continue
        full = _below(name, *words)
        found[full] = leaf
        leaves.append(partial(_named, full))
    return lambda arrays: jax.tree_util.tree_unflatten(structure, [leaf(arrays) for leaf in leaves])


def _take_of_function(function: types.FunctionType, name: str, found: dict[str, Any]) -> Again:
    """The same for what a function names from outside itself."""
    try:
        outside = inspect.getclosurevars(function)
    except ValueError:  # one of them has no value yet
        return _same(function)
    taken: dict[str, Again] = {}
    for word, value in {**outside.globals, **outside.nonlocals}.items():
        if isinstance(value, types.FunctionType | types.ModuleType | type):
            continue
        before = len(found)
        again = take(value, _below(name, word), found, weights_alone=True)
        if len(found) > before:
            taken[word] = again
    if not taken:
        return _same(function)

    def again(arrays: Mapping[str, Any]) -> Any:
        values = {word: each(arrays) for word, each in taken.items()}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        closure = tuple(types.CellType(values[word]) if word in values else cell for word, cell in cells)
        names = {**function.__globals__, **{word: values[word] for word in values if word in outside.globals}}
        fresh = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, closure)
        fresh.__kwdefaults__ = function.__kwdefaults__
        return fresh

    return again


def _take_of_nnx(module: Any, name: str, found: dict[str, Any]) -> Again:
    """The same for a module of Flax's nnx."""
    from flax import nnx

    module.eval()
    # Keys of random numbers are no arrays; in eval mode nothing draws from them.
    graph, keys, state = nnx.split(module, nnx.RngState, ...)
    weights = take(nnx.to_pure_dict(state), name, found)

    def again(arrays: Mapping[str, Any]) -> Any:
        nnx.replace_by_pure_dict(state, weights(arrays))
        return nnx.merge(graph, keys, state)

    return again


def _is_array(leaf: Any, weights_alone: bool) -> bool:
    """Whether a leaf is an array of JAX, or the shape of one."""
    if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) or jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        return False
    return not weights_alone or (leaf.size > 1 and jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact))


def _below(name: str, *words: str) -> str:
    return ".".join([name, *words] if name else words)


def _named(name: str, arrays: Mapping[str, Any]) -> Any:
    return arrays[name]


def _same(value: Any) -> Again:
    return lambda arrays: value
