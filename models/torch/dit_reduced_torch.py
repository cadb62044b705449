"""DiT-S/2 (Peebles and Xie 2022), reduced: 4 of 12 layers and a 16x16 latent; adaptive norms."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="dit_reduced_torch", family="diffusion", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """One step: noise and its variance, (1, 8, 16, 16), given a class."""
    import diffusers

    latent = values("hidden_states", (1, 4, 16, 16), dtype)
    step = values("timestep", (1,), "int32", "int:0:1000")
    label = values("class_labels", (1,), "int32", "int:0:1000")
    return TorchBuilt(
        lambda: diffusers.DiTTransformer2DModel(
            num_attention_heads=6, attention_head_dim=64, in_channels=4, out_channels=8, num_layers=4, sample_size=16
        ),
        (latent, step, label),
        outputs=("sample",),
    )
