"""MobileNetV3-Small (Howard et al. 2019) of keras.applications: hard swish, squeeze and excitation."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.keras.applications import application
from opscope.models.registry import model


@model(name="mobilenet_v3_small_keras", family="cnn", framework="keras")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    return application("MobileNetV3Small", 224, dtype, image="uniform:0:255")
