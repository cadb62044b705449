"""ViT-Base/16 (Dosovitskiy et al. 2020) as transformers has it, at 224x224, batch 1, attention written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


@model(name="vit_base_torch", family="vision_transformer", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    from opscope.models.frontends.torch import TorchBuilt, image

    def make() -> transformers.PreTrainedModel:
        config = transformers.ViTConfig(num_labels=1000, attn_implementation="eager")
        return transformers.ViTForImageClassification(config)

    return TorchBuilt(make, (image(224, dtype),), outputs=("logits",))
