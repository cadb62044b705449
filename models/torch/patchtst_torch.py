"""PatchTST/64 (Nie et al. 2023) with 7 channels, 512 steps in, 96 out, as for the ETT data."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="patchtst_torch", family="time_series", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The next 96 steps of two series, (2, 96, 7)."""
    import transformers

    config = transformers.PatchTSTConfig(
        num_input_channels=7,
        context_length=512,
        patch_length=16,
        patch_stride=8,
        prediction_length=96,
        d_model=128,
        num_hidden_layers=3,
        num_attention_heads=16,
        ffn_dim=256,
    )
    return TorchBuilt(
        lambda: transformers.PatchTSTForPrediction(config),
        (values("past_values", (2, 512, 7), dtype),),
        outputs=("prediction_outputs",),
    )
