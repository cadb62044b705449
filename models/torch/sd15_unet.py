"""The denoiser of Stable Diffusion 1.5 (Rombach et al. 2021) at full size: 860 million parameters, a 64x64 latent."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="sd15_unet", family="diffusion", framework="torch", giant=True)
def build(dtype: str) -> TorchBuilt:
    """One step: the noise in a latent, (1, 4, 64, 64), given a text of 77 tokens."""
    import diffusers

    latent = values("sample", (1, 4, 64, 64), dtype)
    step = values("timestep", (1,), "int32", "int:0:1000")
    text = values("encoder_hidden_states", (1, 77, 768), dtype)
    return TorchBuilt(
        lambda: diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768),
        (latent, step, text),
        outputs=("sample",),
    )
