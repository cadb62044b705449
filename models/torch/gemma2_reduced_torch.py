"""Gemma-2-2B (2024), reduced: width 1152, 2 layers and 16,000 words; soft caps and sliding windows."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="gemma2_reduced_torch", family="decoder", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place."""
    import transformers

    config = transformers.Gemma2Config(
        vocab_size=16000,
        hidden_size=1152,
        intermediate_size=4608,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=256,
    )
    return TorchBuilt(
        lambda: transformers.Gemma2ForCausalLM(config),
        (tokens(16000, 32),),
        outputs=("logits",),
        keywords={"use_cache": False},
    )
