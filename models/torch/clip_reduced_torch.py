"""CLIP ViT-B/32 (Radford et al. 2021), reduced: 2 of 12 layers in each tower, as all layers are alike."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image, tokens, whole_mask
from opscope.models.registry import model


@model(name="clip_reduced_torch", family="multimodal", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """How well two texts fit two images, (2, 2)."""
    import transformers

    config = transformers.CLIPConfig(text_config={"num_hidden_layers": 2}, vision_config={"num_hidden_layers": 2})
    inputs = (tokens(49405, 77, batch=2), image(224, dtype, batch=2), whole_mask(77, batch=2))
    return TorchBuilt(lambda: transformers.CLIPModel(config), inputs, outputs=("logits_per_image",))
