"""Mamba-130M (Gu and Dao 2023), reduced: 2 of 24 layers, 8,000 words, sequence 16 (the scan is unrolled)."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="mamba_130m_reduced_torch", family="state_space", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place."""
    import transformers

    config = transformers.MambaConfig(vocab_size=8000, hidden_size=768, num_hidden_layers=2)
    return TorchBuilt(
        lambda: transformers.MambaForCausalLM(config),
        (tokens(8000, 16),),
        outputs=("logits",),
        keywords={"use_cache": False},
        laws={
            "*A_log": "uniform:0:2.5",
            "*dt_bias": "uniform:-4:-2",
            "*dt_proj.bias": "uniform:-4:-2",
            "*.D": "normal:1:0.1",
        },
    )
