"""ViT-Base/16 (Dosovitskiy et al. 2020) at 224x224, batch 1, 1000 classes: 86,567,656 parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

IMAGE, PATCH, CLASSES = 224, 16, 1000
WIDTH, LAYERS, HEADS, INNER = 768, 12, 12, 3072
PATCHES = (IMAGE // PATCH) ** 2
EPSILON = 1e-6


@model(name="vit_base", family="vision_transformer")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    import jax
    import jax.numpy as jnp

    from opscope.models.layers import attention, dense, dense_arguments, gelu_exact, layer_norm, layer_norm_arguments

    deviation = 1 / math.sqrt(PATCH * PATCH * 3)
    specs = [
        ArgSpec("patch.weight", (PATCH, PATCH, 3, WIDTH), dtype, f"normal:{deviation:.6g}"),
        ArgSpec("patch.bias", (WIDTH,), dtype, "normal:0.02"),
        ArgSpec("class_token", (1, 1, WIDTH), dtype, "normal:0.5"),
        ArgSpec("position", (1, PATCHES + 1, WIDTH), dtype, "normal:0.3"),
    ]
    for i in range(LAYERS):
        specs += layer_norm_arguments(f"block{i}.norm1", WIDTH, dtype)
        specs += dense_arguments(f"block{i}.qkv", WIDTH, 3 * WIDTH, dtype)
        specs += dense_arguments(f"block{i}.projection", WIDTH, WIDTH, dtype)
        specs += layer_norm_arguments(f"block{i}.norm2", WIDTH, dtype)
        specs += dense_arguments(f"block{i}.up", WIDTH, INNER, dtype)
        specs += dense_arguments(f"block{i}.down", INNER, WIDTH, dtype)
    specs += layer_norm_arguments("norm", WIDTH, dtype)
    specs += dense_arguments("head", WIDTH, CLASSES, dtype)
    specs.append(ArgSpec("image", (1, IMAGE, IMAGE, 3), dtype, "normal:1", "input"))

    def embed(w: Mapping[str, Any]) -> jax.Array:
        with jax.named_scope("patch"):
            layout = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(
                w["image"], w["patch.weight"], (PATCH, PATCH), "VALID", dimension_numbers=layout
            )
            x = x.reshape(1, PATCHES, WIDTH) + w["patch.bias"]
        with jax.named_scope("position"):
            return jnp.concatenate([w["class_token"], x], axis=1) + w["position"]

    def block(w: Mapping[str, Any], name: str, x: jax.Array) -> jax.Array:
        q, k, v = jnp.split(dense(w, f"{name}.qkv", layer_norm(w, f"{name}.norm1", x, EPSILON)), 3, axis=-1)
        x = x + dense(w, f"{name}.projection", attention(q, k, v, HEADS, None))
        inner = gelu_exact(dense(w, f"{name}.up", layer_norm(w, f"{name}.norm2", x, EPSILON)))
        return x + dense(w, f"{name}.down", inner)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = embed(w)
        for i in range(LAYERS):
            x = block(w, f"block{i}", x)
        return dense(w, "head", layer_norm(w, "norm", x, EPSILON)[:, 0])

    return Built(forward, tuple(specs))
