"""DETR (Carion et al. 2020), reduced: a ResNet-18 backbone, 2 + 2 layers and a 128x128 image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


@model(name="detr_reduced_torch", family="detection", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """Detector of one image; returns the logits and boxes of 100 queries."""
    import transformers

    from opscope.models.frontends.torch import TorchBuilt, image, values

    def make() -> transformers.PreTrainedModel:
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
        return transformers.DetrForObjectDetection(config)

    mask = values("pixel_mask", (1, 128, 128), "int32", "ones")
    return TorchBuilt(make, (image(128, dtype), mask), outputs=("logits", "pred_boxes"))
