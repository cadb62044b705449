"""DETR (Carion et al. 2020), reduced: a ResNet-18 backbone, 2 + 2 layers and a 128x128 image."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image, values
from opscope.models.registry import model


@model(name="detr_reduced_torch", family="detection", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """Detector of one image; returns the logits and boxes of 100 queries."""
    import transformers

    backbone = transformers.ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", out_features=["stage4"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        backbone_config=backbone,
        backbone=None,
        use_pretrained_backbone=False,
        encoder_layers=2,
        decoder_layers=2,
    )
    mask = values("pixel_mask", (1, 128, 128), "int32", "ones")
    return TorchBuilt(
        lambda: transformers.DetrForObjectDetection(config), (image(128, dtype), mask), outputs=("logits", "pred_boxes")
    )
