"""ResNet-50 (He et al. 2015) of keras.applications: stride on the first 1x1 convolution of a stage, biases kept."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.keras.applications import application
from opscope.models.registry import model


@model(name="resnet50_keras", family="cnn", framework="keras")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    return application("ResNet50", 224, dtype, laws=[("*_3_bn/gamma", "normal:0.2:0.02")])
