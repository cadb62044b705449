"""Mask2Former (Cheng et al. 2021), reduced: a narrow Swin backbone, 1 + 2 layers and a 64x64 image."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="mask2former_reduced_torch", family="segmentation", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """Classes and masks of 20 queries."""
    import transformers

    backbone = transformers.SwinConfig(
        image_size=64,
        embed_dim=32,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 4, 8],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = transformers.Mask2FormerConfig(
        backbone_config=backbone,
        feature_size=64,
        mask_feature_size=64,
        hidden_dim=64,
        encoder_feedforward_dim=128,
        dim_feedforward=128,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=4,
        num_queries=20,
        num_labels=19,
    )
    return TorchBuilt(
        lambda: transformers.Mask2FormerForUniversalSegmentation(config),
        (image(64, dtype),),
        outputs=("class_queries_logits", "masks_queries_logits"),
    )
