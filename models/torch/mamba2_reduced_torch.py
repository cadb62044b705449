"""Mamba-2 (Dao and Gu 2024), reduced: width 256, 2 layers, 8,000 words; chunks of 16."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="mamba2_reduced_torch", family="state_space", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place."""
    import transformers

    config = transformers.Mamba2Config(
        vocab_size=8000,
        hidden_size=256,
        num_hidden_layers=2,
        state_size=64,
        num_heads=8,
        head_dim=64,
        n_groups=1,
        chunk_size=16,
    )
    return TorchBuilt(
        lambda: transformers.Mamba2ForCausalLM(config),
        (tokens(8000, 32),),
        outputs=("logits",),
        keywords={"use_cache": False},
        laws={
            "*A_log": "uniform:0:2.5",
            "*dt_bias": "uniform:-4:-2",
            "*dt_proj.bias": "uniform:-4:-2",
            "*.D": "normal:1:0.1",
        },
    )
