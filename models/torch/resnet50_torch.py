"""ResNet-50 (He et al. 2015) as transformers has it, at 224x224, batch 1: the second framework beside `resnet50`."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="resnet50_torch", family="cnn", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    config = transformers.ResNetConfig(num_labels=1000)
    return TorchBuilt(
        lambda: transformers.ResNetForImageClassification(config), (image(224, dtype),), outputs=("logits",)
    )
