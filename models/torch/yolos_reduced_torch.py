"""YOLOS-tiny (Fang et al. 2021), reduced: 4 of 12 layers and a 160x160 image, as all layers are alike."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="yolos_reduced_torch", family="detection", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """Detector of one image; returns the logits and boxes of 100 detection tokens."""
    import transformers

    config = transformers.YolosConfig(
        hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768, image_size=[160, 160]
    )
    return TorchBuilt(
        lambda: transformers.YolosForObjectDetection(config), (image(160, dtype),), outputs=("logits", "pred_boxes")
    )
