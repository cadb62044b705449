"""Models of keras.applications, without their published weights."""

from __future__ import annotations

from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.frontends.keras import Distributions, functional


def application(
    name: str, side: int, dtype: str, *, laws: Distributions = (), image: str = "normal:1", **options: Any
) -> Built:
    """The network `name` for one image of its published size; returns logits. `image` is the image's distribution."""
    import keras

    make = getattr(keras.applications, name)
    size = (side, side, 3)
    return functional(
        lambda: make(weights=None, input_shape=size, classifier_activation=None, **options),
        [ArgSpec("image", (1, *size), dtype, image, "input")],
        laws,
    )
