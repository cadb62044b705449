"""The autoencoder of Stable Diffusion (Rombach et al. 2021), reduced: two levels of width 32 and 64, a 64x64 image."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="sd_vae_reduced_torch", family="diffusion", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The mean latent of an image, and the image decoded from it."""
    import diffusers
    import torch

    class Through(torch.nn.Module):
        """Encoder and decoder in a row."""

        def __init__(self) -> None:
            super().__init__()
            self.vae = diffusers.AutoencoderKL(
                block_out_channels=(32, 64),
                layers_per_block=1,
                norm_num_groups=16,
                latent_channels=4,
                down_block_types=("DownEncoderBlock2D",) * 2,
                up_block_types=("UpDecoderBlock2D",) * 2,
            )

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """(latent, image)."""
            latent = self.vae.encode(image).latent_dist.mode()
            return latent, self.vae.decode(latent).sample

    return TorchBuilt(Through, (values("image", (1, 3, 64, 64), dtype),))
