"""ResNet-50 (He et al. 2015) as transformers has it, at 224x224, batch 1: the second framework beside `resnet50`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


@model(name="resnet50_torch", family="cnn", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    from opscope.models.frontends.torch import TorchBuilt, image

    def make() -> transformers.PreTrainedModel:
        config = transformers.ResNetConfig(num_labels=1000)
        return transformers.ResNetForImageClassification(config)

    return TorchBuilt(make, (image(224, dtype),), outputs=("logits",))
