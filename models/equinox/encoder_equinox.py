"""A pre-norm transformer encoder over sensor data in Equinox, reduced: 2 layers of width 128; vmapped over time."""

from __future__ import annotations

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

STEPS, SENSORS, WIDTH, HEADS, LAYERS, CLASSES = 96, 9, 128, 8, 2, 6


@model(name="encoder_equinox", family="time_series", framework="equinox", size="reduced")
def build(dtype: str) -> Built:
    """The class of one recording of nine sensors (human activity); returns logits, (6,)."""
    import equinox as eqx
    import jax

    from opscope.models.frontends.jax_tree import of_tree

    class Layer(eqx.Module):
        """Attention and perceptron, each added to what it takes."""

        attention: eqx.nn.MultiheadAttention
        mlp: eqx.nn.MLP
        norm1: eqx.nn.LayerNorm
        norm2: eqx.nn.LayerNorm

        def __init__(self, key: jax.Array) -> None:
            first, second = jax.random.split(key)
            self.attention = eqx.nn.MultiheadAttention(HEADS, WIDTH, key=first)
            self.mlp = eqx.nn.MLP(WIDTH, WIDTH, 4 * WIDTH, 1, activation=jax.nn.silu, key=second)
            self.norm1, self.norm2 = eqx.nn.LayerNorm(WIDTH), eqx.nn.LayerNorm(WIDTH)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = jax.vmap(self.norm1)(x)
            x = x + self.attention(y, y, y)
            return x + jax.vmap(self.mlp)(jax.vmap(self.norm2)(x))

    class Encoder(eqx.Module):
        """Projection, layers, classifier of the mean."""

        project: eqx.nn.Linear
        layers: list[Layer]
        head: eqx.nn.Linear

        def __init__(self, key: jax.Array) -> None:
            keys = jax.random.split(key, LAYERS + 2)
            self.project = eqx.nn.Linear(SENSORS, WIDTH, key=keys[0])
            self.layers = [Layer(k) for k in keys[2:]]
            self.head = eqx.nn.Linear(WIDTH, CLASSES, key=keys[1])

        def __call__(self, recording: jax.Array) -> jax.Array:
            x = jax.vmap(self.project)(recording)
            for layer in self.layers:
                x = layer(x)
            return self.head(x.mean(axis=0))

    whole = eqx.filter_eval_shape(Encoder, jax.random.key(0))
    arrays, rest = eqx.partition(whole, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    recording = ArgSpec("recording", (STEPS, SENSORS), dtype, "normal:1", "input")
    return of_tree(
        arrays, lambda leaves, x: eqx.combine(leaves, rest)(x), (recording,), dtype=dtype, outputs_first=True
    )
