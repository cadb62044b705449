"""Llama-3.2-1B (2024), reduced: 2 of 16 layers and 16,000 words; grouped queries, rotary positions."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="llama3_1b_reduced_torch", family="decoder", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=16000,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=2,
        num_attention_heads=32,
        num_key_value_heads=8,
    )
    return TorchBuilt(
        lambda: transformers.LlamaForCausalLM(config),
        (tokens(16000, 32),),
        outputs=("logits",),
        keywords={"use_cache": False},
    )
