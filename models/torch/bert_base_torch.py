"""BERT-base (Devlin et al. 2018) as transformers has it, sequence 128: the second framework beside `bert_base`."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens, whole_mask
from opscope.models.registry import model


@model(name="bert_base_torch", family="encoder", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The encoder of one sequence; returns the last hidden state and the pooled output."""
    import transformers

    return TorchBuilt(
        lambda: transformers.BertModel(transformers.BertConfig(attn_implementation="eager")),
        (tokens(30522, 128), whole_mask(128)),
        outputs=("last_hidden_state", "pooler_output"),
    )
