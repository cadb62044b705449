"""MLP-Mixer S/16 (Tolstikhin et al. 2021) in Flax nnx, 224x224, batch 1: products over channels and over places."""

from __future__ import annotations

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

WIDTH, LAYERS, PATCH, TOKENS_WIDTH, CHANNELS_WIDTH = 512, 8, 16, 256, 2048


@model(name="mixer_s16_flax", family="mlp", framework="flax")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    import jax
    from flax import nnx

    from opscope.models.frontends.jax_tree import of_tree

    class Perceptron(nnx.Module):
        """Two layers over the last axis."""

        def __init__(self, width: int, inner: int, rngs: nnx.Rngs) -> None:
            self.up = nnx.Linear(width, inner, rngs=rngs)
            self.down = nnx.Linear(inner, width, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.down(nnx.gelu(self.up(x)))

    class Block(nnx.Module):
        """Mixes places, then channels."""

        def __init__(self, places: int, rngs: nnx.Rngs) -> None:
            self.norm1 = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.places = Perceptron(places, TOKENS_WIDTH, rngs)
            self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.channels = Perceptron(WIDTH, CHANNELS_WIDTH, rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            x = x + self.places(self.norm1(x).swapaxes(1, 2)).swapaxes(1, 2)
            return x + self.channels(self.norm2(x))

    class Mixer(nnx.Module):
        """Patches, blocks, classifier."""

        def __init__(self, rngs: nnx.Rngs) -> None:
            self.stem = nnx.Conv(3, WIDTH, (PATCH, PATCH), strides=PATCH, padding="VALID", rngs=rngs)
            self.blocks = nnx.List([Block((224 // PATCH) ** 2, rngs) for _ in range(LAYERS)])
            self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.head = nnx.Linear(WIDTH, 1000, rngs=rngs)

        def __call__(self, image: jax.Array) -> jax.Array:
            x = self.stem(image)
            x = x.reshape(x.shape[0], -1, WIDTH)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x).mean(axis=1))

    definition, state = nnx.split(nnx.eval_shape(lambda: Mixer(nnx.Rngs(0))))
    image = ArgSpec("image", (1, 224, 224, 3), dtype, "normal:1", "input")
    return of_tree(state, lambda leaves, x: nnx.merge(definition, leaves)(x), (image,), dtype=dtype)
