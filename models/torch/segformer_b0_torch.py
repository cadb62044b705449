"""SegFormer-B0 (Xie et al. 2021), reduced: a 128x128 image in place of 512x512."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="segformer_b0_torch", family="segmentation", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """Labels every quarter pixel; returns logits, (1, 150, 32, 32)."""
    import transformers

    return TorchBuilt(
        lambda: transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=150)),
        (image(128, dtype),),
        outputs=("logits",),
    )
