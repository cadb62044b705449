"""DenseNet-121 (Huang et al. 2016) of keras.applications: every layer sees all earlier ones."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.keras.applications import application
from opscope.models.registry import model


@model(name="densenet121_keras", family="cnn", framework="keras")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    return application("DenseNet121", 224, dtype)
