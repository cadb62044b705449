"""ConvNeXt-T (Liu et al. 2022): depthwise 7x7 convolutions, 224x224, batch 1."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="convnext_tiny_torch", family="cnn", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    config = transformers.ConvNextConfig(num_labels=1000)
    return TorchBuilt(
        lambda: transformers.ConvNextForImageClassification(config), (image(224, dtype),), outputs=("logits",)
    )
