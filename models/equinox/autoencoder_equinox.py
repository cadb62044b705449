"""A convolutional autoencoder of 28x28 images in Equinox: strided and transposed convolutions, batch 8, full size."""

from __future__ import annotations

import itertools

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

CHANNELS = (1, 16, 32)
LATENT = 32


@model(name="autoencoder_equinox", family="cnn", framework="equinox")
def build(dtype: str) -> Built:
    """Images and what is decoded from their codes, (8, 1, 28, 28)."""
    import equinox as eqx
    import jax

    from opscope.models.frontends.jax_tree import of_tree

    class Autoencoder(eqx.Module):
        """Two convolutions down to a code, two transposed ones up again."""

        down: list[eqx.nn.Conv2d]
        up: list[eqx.nn.ConvTranspose2d]
        code: eqx.nn.Linear
        decode: eqx.nn.Linear

        def __init__(self, key: jax.Array) -> None:
            keys = jax.random.split(key, 6)
            pairs = list(itertools.pairwise(CHANNELS))
            self.down = [eqx.nn.Conv2d(a, b, 3, 2, 1, key=k) for (a, b), k in zip(pairs, keys[:2], strict=True)]
            self.up = [
                eqx.nn.ConvTranspose2d(b, a, 3, 2, padding=1, output_padding=1, key=k)
                for (a, b), k in zip(reversed(pairs), keys[2:4], strict=True)
            ]
            self.code = eqx.nn.Linear(32 * 49, LATENT, key=keys[4])
            self.decode = eqx.nn.Linear(LATENT, 32 * 49, key=keys[5])

        def __call__(self, image: jax.Array) -> jax.Array:
            x = image
            for layer in self.down:
                x = jax.nn.elu(layer(x))
            x = self.decode(jax.nn.tanh(self.code(x.reshape(-1)))).reshape(32, 7, 7)
            x = jax.nn.elu(self.up[0](x))
            return jax.nn.sigmoid(self.up[1](x))

    whole = eqx.filter_eval_shape(Autoencoder, jax.random.key(0))
    arrays, rest = eqx.partition(whole, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    images = ArgSpec("images", (8, 1, 28, 28), dtype, "normal:1", "input")
    return of_tree(
        arrays, lambda leaves, x: jax.vmap(eqx.combine(leaves, rest))(x), (images,), dtype=dtype, outputs_first=True
    )
