"""Mixtral (Jiang et al. 2024), reduced: width 512, 2 layers, 8 experts of which 2 are used."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="mixtral_reduced_torch", family="mixture_of_experts", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place."""
    import transformers

    def make() -> transformers.PreTrainedModel:
        config = transformers.MixtralConfig(
            vocab_size=8000,
            hidden_size=512,
            intermediate_size=1024,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=2,
            num_local_experts=8,
        )
        module = transformers.MixtralForCausalLM(config)
        module.set_experts_implementation("batched_mm")
        return module

    return TorchBuilt(make, (tokens(8000, 16),), outputs=("logits",), keywords={"use_cache": False})
