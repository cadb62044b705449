"""Models whose weights are a tree of arrays (Flax, Equinox) as functions of named arrays. Imports jax."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from opscope.models.arguments import ArgSpec, Built

STATE = {"mean": "normal:0.1", "var": "uniform:0.5:1.5"}
"""Running statistics, by the last word of their path."""


def of_tree(
    tree: Any, call: Callable[..., Any], inputs: Sequence[ArgSpec], *, dtype: str, outputs_first: bool = False
) -> Built:
    """The model `call(tree, *inputs)`, one argument per leaf of `tree` (shapes alone, e.g. of `jax.eval_shape`).

    Floating leaves have the type `dtype`. `outputs_first`: a weight's first dimension is its outputs, as in Equinox;
    Flax has inputs first.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    specs = []
    for path, leaf in leaves:
        words = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
        words = [word for word in words if word not in ("params", "value", "batch_stats")]
        role = "state" if words[-1] in STATE else "parameter"
        kind = dtype if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating) else str(leaf.dtype)
        distribution = STATE.get(words[-1]) or weight_distribution(words, leaf.shape, outputs_first=outputs_first)
        specs.append(ArgSpec(".".join(words), tuple(leaf.shape), kind, distribution, role))

    def forward(w: Mapping[str, Any]) -> Any:
        whole = jax.tree_util.tree_unflatten(structure, [w[spec.name] for spec in specs])
        return call(whole, *(w[spec.name] for spec in inputs))

    return Built(forward, (*specs, *inputs))


def weight_distribution(words: Sequence[str], shape: Sequence[int], *, outputs_first: bool) -> str:
    """Returns the distribution of the weight at path `words`: products keep the variance, convolutions as before a
    ReLU."""
    if "embed" in "".join(words[-2:]).lower():
        return "normal:0.5"
    if len(shape) < 2:
        return "normal:1:0.1" if words[-1] in ("scale", "weight") else "normal:0.05"
    fan = math.prod(shape[1:]) if outputs_first else math.prod(shape[:-1])
    gain = 2 if len(shape) == 4 else 1
    return f"normal:{math.sqrt(gain / fan):.6g}"
