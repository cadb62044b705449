"""Qwen3-0.6B (2025), reduced: 2 of 28 layers and 16,000 words; normalised queries and keys."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="qwen3_reduced_torch", family="decoder", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place."""
    import transformers

    config = transformers.Qwen3Config(
        vocab_size=16000,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=2,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
    )
    return TorchBuilt(
        lambda: transformers.Qwen3ForCausalLM(config),
        (tokens(16000, 32),),
        outputs=("logits",),
        keywords={"use_cache": False},
    )
