"""ConvNeXt-Tiny (Liu et al. 2022) of keras.applications: 7x7 depthwise convolutions, layer norms, GELU."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.keras.applications import application
from opscope.models.registry import model


@model(name="convnext_tiny_keras", family="cnn", framework="keras")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    return application("ConvNeXtTiny", 224, dtype, image="uniform:0:255")
