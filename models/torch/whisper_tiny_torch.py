"""Whisper-tiny (Radford et al. 2022), reduced: 10 of 30 seconds of sound; encoder and decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


@model(name="whisper_tiny_torch", family="audio", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at each of 16 places."""
    import transformers

    from opscope.models.frontends.torch import TorchBuilt, tokens, values

    def make() -> transformers.PreTrainedModel:
        config = transformers.WhisperConfig(max_source_positions=500)
        return transformers.WhisperForConditionalGeneration(config)

    sound = values("input_features", (1, 80, 1000), dtype)
    inputs = (sound, tokens(51865, 16, name="decoder_input_ids"))
    return TorchBuilt(make, inputs, outputs=("logits",), keywords={"use_cache": False})
