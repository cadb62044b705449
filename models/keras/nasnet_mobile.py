"""NASNet-A Mobile (Zoph et al. 2017) of keras.applications: searched cells of separable convolutions."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.keras.applications import application
from opscope.models.registry import model


@model(name="nasnet_mobile_keras", family="cnn", framework="keras")
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    return application("NASNetMobile", 224, dtype, laws=[("*gamma", "normal:0.7:0.07")])
