"""Audio spectrogram transformer (Gong et al. 2021), reduced: 2 of 12 layers and 256 of 1,024 frames."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="ast_reduced_torch", family="audio", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The class of one spectrogram; returns logits."""
    import transformers

    config = transformers.ASTConfig(num_hidden_layers=2, max_length=256, num_labels=527)
    return TorchBuilt(
        lambda: transformers.ASTForAudioClassification(config),
        (values("input_values", (1, 256, 128), dtype),),
        outputs=("logits",),
    )
