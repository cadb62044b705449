"""MobileNetV2 (Sandler et al. 2018) as transformers has it, 224x224, batch 1: padding as TensorFlow's."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="mobilenet_v2_torch", family="cnn", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    config = transformers.MobileNetV2Config(num_labels=1000)
    return TorchBuilt(
        lambda: transformers.MobileNetV2ForImageClassification(config), (image(224, dtype),), outputs=("logits",)
    )
