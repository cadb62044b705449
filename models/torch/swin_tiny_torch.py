"""Swin-T (Liu et al. 2021): attention in shifted windows, 224x224, batch 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


@model(name="swin_tiny_torch", family="vision_transformer", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    from opscope.models.frontends.torch import TorchBuilt, image

    def make() -> transformers.PreTrainedModel:
        config = transformers.SwinConfig(num_labels=1000)
        return transformers.SwinForImageClassification(config)

    return TorchBuilt(make, (image(224, dtype),), outputs=("logits",))
