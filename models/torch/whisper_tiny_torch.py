"""Whisper-tiny (Radford et al. 2022), reduced: 10 of 30 seconds of sound; encoder and decoder."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens, values
from opscope.models.registry import model


@model(name="whisper_tiny_torch", family="audio", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at each of 16 places."""
    import transformers

    config = transformers.WhisperConfig(max_source_positions=500)
    sound = values("input_features", (1, 80, 1000), dtype)
    inputs = (sound, tokens(51865, 16, name="decoder_input_ids"))
    return TorchBuilt(
        lambda: transformers.WhisperForConditionalGeneration(config),
        inputs,
        outputs=("logits",),
        keywords={"use_cache": False},
    )
