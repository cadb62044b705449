"""Llama-3-8B (Grattafiori et al. 2024) at full size, sequence 128: 8.03 billion parameters in bfloat16."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="llama3_8b", family="decoder", framework="torch", giant=True)
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rope_theta=500000.0,
    )
    return TorchBuilt(
        lambda: transformers.LlamaForCausalLM(config),
        (tokens(128256, 128),),
        outputs=("logits",),
        keywords={"use_cache": False},
        dtype="bfloat16",
    )
