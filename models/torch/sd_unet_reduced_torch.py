"""The denoiser of Stable Diffusion (Rombach et al. 2021), reduced: two levels of width 64 and 128, a 32x32 latent."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="sd_unet_reduced_torch", family="diffusion", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """One step: the noise in a latent, (1, 4, 32, 32), given a text of 16 tokens."""
    import diffusers

    latent = values("sample", (1, 4, 32, 32), dtype)
    step = values("timestep", (1,), "int32", "int:0:1000")
    text = values("encoder_hidden_states", (1, 16, 128), dtype)
    return TorchBuilt(
        lambda: diffusers.UNet2DConditionModel(
            sample_size=32,
            block_out_channels=(64, 128),
            layers_per_block=1,
            cross_attention_dim=128,
            attention_head_dim=8,
            norm_num_groups=16,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        ),
        (latent, step, text),
        outputs=("sample",),
    )
