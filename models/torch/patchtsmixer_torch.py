"""PatchTSMixer (Ekambaram et al. 2023) with 7 channels, 512 steps in, 96 out."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="patchtsmixer_torch", family="time_series", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The next 96 steps of two series, (2, 96, 7)."""
    import transformers

    config = transformers.PatchTSMixerConfig(
        num_input_channels=7,
        context_length=512,
        patch_length=16,
        patch_stride=16,
        prediction_length=96,
        d_model=48,
        num_layers=3,
    )
    return TorchBuilt(
        lambda: transformers.PatchTSMixerForPrediction(config),
        (values("past_values", (2, 512, 7), dtype),),
        outputs=("prediction_outputs",),
    )
