"""ConvNeXt-T (Liu et al. 2022): depthwise 7x7 convolutions, 224x224, batch 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


@model(name="convnext_tiny_torch", family="cnn", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    from opscope.models.frontends.torch import TorchBuilt, image

    def make() -> transformers.PreTrainedModel:
        config = transformers.ConvNextConfig(num_labels=1000)
        return transformers.ConvNextForImageClassification(config)

    return TorchBuilt(make, (image(224, dtype),), outputs=("logits",))
