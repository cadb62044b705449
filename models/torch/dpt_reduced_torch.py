"""DPT (Ranftl et al. 2021), reduced: width 192, 4 layers and a 96x96 image."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="dpt_reduced_torch", family="depth", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """Depth of every pixel of one image, (1, 96, 96)."""
    import transformers

    config = transformers.DPTConfig(
        image_size=96,
        patch_size=16,
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=768,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[48, 96, 192, 192],
        fusion_hidden_size=64,
        is_hybrid=False,
    )
    return TorchBuilt(
        lambda: transformers.DPTForDepthEstimation(config), (image(96, dtype),), outputs=("predicted_depth",)
    )
