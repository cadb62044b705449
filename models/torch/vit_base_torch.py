"""ViT-Base/16 (Dosovitskiy et al. 2020) as transformers has it, at 224x224, batch 1, attention written out."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="vit_base_torch", family="vision_transformer", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    config = transformers.ViTConfig(num_labels=1000, attn_implementation="eager")
    return TorchBuilt(lambda: transformers.ViTForImageClassification(config), (image(224, dtype),), outputs=("logits",))
