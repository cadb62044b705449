"""Swin-T (Liu et al. 2021): attention in shifted windows, 224x224, batch 1."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="swin_tiny_torch", family="vision_transformer", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    config = transformers.SwinConfig(num_labels=1000)
    return TorchBuilt(
        lambda: transformers.SwinForImageClassification(config), (image(224, dtype),), outputs=("logits",)
    )
