"""MNIST classifier: two hidden layers of 128 and 64 units, as in many a first tutorial; 109,386 parameters.

And one step of its training: forward, backward and update as one program.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

BATCH = 8
WIDTHS = (784, 128, 64, 10)
RATE = 0.1


# Megatron's pairs: a layer split by columns, then one by rows, whose parts are added up; images over the other axis.
@model(
    name="mnist_mlp",
    family="mlp",
    size="full",
    shardings={r"dense0\.weight": ",model", r"dense0\.bias": "model", r"dense1\.weight": "model", "image": "data"},
)
def build(dtype: str) -> Built:
    """The classifier of `BATCH` 28x28 images; returns log-probabilities, (BATCH, 10)."""
    import jax
    import jax.numpy as jnp

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["image"].reshape(BATCH, WIDTHS[0])
        for i in range(len(WIDTHS) - 1):
            with jax.named_scope(f"dense{i}"):
                x = x @ w[f"dense{i}.weight"] + w[f"dense{i}.bias"]
                if i < len(WIDTHS) - 2:
                    x = jnp.maximum(x, 0)
        with jax.named_scope("log_softmax"):
            shifted = x - jnp.max(x, axis=-1, keepdims=True)
            return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True))

    arguments = []
    for i, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
        # He's scale: keeps the variance of a layer with ReLU.
        arguments.append(ArgSpec(f"dense{i}.weight", (inputs, outputs), dtype, f"normal:{(2 / inputs) ** 0.5:.6g}"))
        arguments.append(ArgSpec(f"dense{i}.bias", (outputs,), dtype, "normal:0.1"))
    arguments.append(ArgSpec("image", (BATCH, 28, 28, 1), dtype, "uniform:0:1", "input"))
    return Built(forward, tuple(arguments))


@model(name="mnist_mlp_train", family="training")
def build_training(dtype: str) -> Built:
    """One step of stochastic gradient descent; returns the loss and all weights after it."""
    import jax
    import jax.numpy as jnp

    classifier = build(dtype)
    weights = [spec.name for spec in classifier.arguments if spec.role == "parameter"]
    label = ArgSpec("label", (BATCH,), "int32", f"int:0:{WIDTHS[-1]}", "input")

    def forward(w: Mapping[str, Any]) -> tuple[jax.Array, dict[str, jax.Array]]:
        def loss(trained: Mapping[str, Any]) -> jax.Array:
            scores = classifier.forward({**w, **trained})
            with jax.named_scope("loss"):
                return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(w["label"], WIDTHS[-1], dtype=scores.dtype), axis=-1))

        lost, slopes = jax.value_and_grad(loss)({name: w[name] for name in weights})
        with jax.named_scope("update"):
            return lost, {name: w[name] - RATE * slopes[name] for name in weights}

    return Built(forward, (*classifier.arguments, label))
