"""ResNet-50 (He et al. 2015) in Flax nnx, 224x224, batch 1, inference: the same network as `resnet50`."""

from __future__ import annotations

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


@model(name="resnet50_flax", family="cnn", framework="flax")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    import jax
    from flax import nnx

    from opscope.models.frontends.jax_tree import of_tree

    class ConvNorm(nnx.Module):
        """A convolution without bias and its batch norm."""

        def __init__(self, inputs: int, outputs: int, size: int, stride: int, rngs: nnx.Rngs) -> None:
            pad = (size - 1) // 2
            self.conv = nnx.Conv(
                inputs,
                outputs,
                (size, size),
                strides=stride,
                padding=((pad, pad), (pad, pad)),
                use_bias=False,
                rngs=rngs,
            )
            self.norm = nnx.BatchNorm(outputs, use_running_average=True, epsilon=1e-5, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.norm(self.conv(x))

    class Block(nnx.Module):
        """Three convolutions beside a shortcut."""

        def __init__(self, inputs: int, width: int, stride: int, rngs: nnx.Rngs) -> None:
            outputs = 4 * width
            self.reduce = ConvNorm(inputs, width, 1, 1, rngs)
            self.middle = ConvNorm(width, width, 3, stride, rngs)
            self.expand = ConvNorm(width, outputs, 1, 1, rngs)
            self.shortcut = ConvNorm(inputs, outputs, 1, stride, rngs) if inputs != outputs or stride > 1 else None

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.expand(nnx.relu(self.middle(nnx.relu(self.reduce(x)))))
            return nnx.relu(y + (x if self.shortcut is None else self.shortcut(x)))

    class ResNet(nnx.Module):
        """Stem, sixteen blocks, classifier."""

        def __init__(self, rngs: nnx.Rngs) -> None:
            self.stem = ConvNorm(3, 64, 7, 2, rngs)
            blocks, channels = [], 64
            for stage, (count, width) in enumerate(STAGES):
                for i in range(count):
                    blocks.append(Block(channels, width, 2 if i == 0 and stage else 1, rngs))
                    channels = 4 * width
            self.blocks = nnx.List(blocks)
            self.head = nnx.Linear(channels, 1000, rngs=rngs)

        def __call__(self, image: jax.Array) -> jax.Array:
            x = nnx.relu(self.stem(image))
            x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean(axis=(1, 2)))

    definition, state = nnx.split(nnx.eval_shape(lambda: ResNet(nnx.Rngs(0))))
    image = ArgSpec("image", (1, 224, 224, 3), dtype, "normal:1", "input")
    return of_tree(state, lambda leaves, x: nnx.merge(definition, leaves)(x), (image,), dtype=dtype)
