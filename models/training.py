"""One training step of a model as a function: forward, backward and optimizer.

The loss is the model's own (`Built.loss`), else the mean square of its first floating result. The optimizer is Adam
(Kingma and Ba 2015, algorithm 1); its moments and step count are arguments, as are all weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.models.arguments import ArgSpec, Built

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
"""The constants of the paper's section 2."""

STEP = "optimizer.step"


def step(built: Built) -> Built:
    """Returns the training step of `built`, a function of weights, moments, step count and inputs.

    Its results are the loss, then the new weights, first and second moments, in the order of the weights. Raises
    ValueError if the model has no floating weights or no floating result.
    """
    import jax
    import jax.numpy as jnp

    from opscope.models.seeding import dtype_of

    trained = [s for s in built.arguments if s.role == "parameter" and jnp.issubdtype(dtype_of(s.dtype), jnp.floating)]
    if not trained:
        raise ValueError("--training: expected a model with floating weights, got one without")
    # Moments as after some steps: the second one is positive, and neither vanishes.
    moments = [ArgSpec(f"optimizer.first.{s.name}", s.shape, s.dtype, "normal:0.01", "state") for s in trained]
    moments += [ArgSpec(f"optimizer.second.{s.name}", s.shape, s.dtype, "uniform:1e-5:1e-3", "state") for s in trained]
    count = ArgSpec(STEP, (), "float32", "const:10", "state")
    names = [s.name for s in trained]

    def loss(weights: Mapping[str, Any], others: Mapping[str, Any]) -> jax.Array:
        results = built.forward({**others, **weights})
        if built.loss is not None:
            return built.loss(results)
        for leaf in jax.tree.leaves(results):
            if jnp.issubdtype(leaf.dtype, jnp.floating):
                with jax.named_scope("loss"):
                    return jnp.mean(jnp.square(leaf.astype(jnp.float32)))
        raise ValueError("--training: expected a model with a floating result, got one without")

    def forward(w: Mapping[str, Any]) -> list[Any]:
        weights = {name: w[name] for name in names}
        others = {name: value for name, value in w.items() if name not in weights}
        value, gradients = jax.value_and_grad(loss)(weights, others)
        with jax.named_scope("optimizer"):
            # Step size with both corrections of bias (the end of section 2 of the paper).
            rate = RATE * jnp.sqrt(1 - BETA2 ** w[STEP]) / (1 - BETA1 ** w[STEP])
            new = [
                _adam(weights[n], gradients[n], w[f"optimizer.first.{n}"], w[f"optimizer.second.{n}"], rate)
                for n in names
            ]
        return [value, *(part[i] for i in range(3) for part in new)]

    return Built(forward, (*built.arguments, *moments, count))


def _adam(weight: Any, gradient: Any, first: Any, second: Any, rate: Any) -> tuple[Any, Any, Any]:
    """The new weight and its new moments, each in the type that it came in."""
    import jax.numpy as jnp

    first = BETA1 * first + (1 - BETA1) * gradient
    second = BETA2 * second + (1 - BETA2) * gradient * gradient
    moved = rate.astype(weight.dtype) * first / (jnp.sqrt(second) + EPSILON)
    return weight - moved, first, second
