"""DeBERTa-v3-small (He et al. 2021), reduced: 2 of 6 layers and 8,000 words; disentangled attention."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens, whole_mask
from opscope.models.registry import model


@model(name="deberta_v2_reduced_torch", family="encoder", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The encoder of one sequence; returns the last hidden state."""
    import transformers

    config = transformers.DebertaV2Config(
        vocab_size=8000,
        hidden_size=768,
        num_hidden_layers=2,
        num_attention_heads=12,
        intermediate_size=3072,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        max_relative_positions=-1,
        position_buckets=256,
    )
    return TorchBuilt(
        lambda: transformers.DebertaV2Model(config), (tokens(8000, 64), whole_mask(64)), outputs=("last_hidden_state",)
    )
