"""EfficientNetV2-B0 (Tan and Le 2021) of keras.applications: fused and depthwise inverted bottlenecks."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.keras.applications import application
from opscope.models.registry import model


@model(name="efficientnet_v2_b0_keras", family="cnn", framework="keras")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    return application("EfficientNetV2B0", 224, dtype, image="uniform:0:255")
