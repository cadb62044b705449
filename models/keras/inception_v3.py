"""Inception v3 (Szegedy et al. 2015) of keras.applications: parallel branches, 1x7 and 7x1 convolutions."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.keras.applications import application
from opscope.models.registry import model


@model(name="inception_v3_keras", family="cnn", framework="keras")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    return application("InceptionV3", 299, dtype, laws=[("predictions/kernel", "normal:0.01")])
