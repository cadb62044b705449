"""BERT-large, uncased (Devlin et al. 2018), sequence 128, with pooler: 335,141,888 parameters."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.jax.bert import Size, bert
from opscope.models.registry import model


@model(name="bert_large", family="encoder")
def build(dtype: str) -> Built:
    """One sequence; the last hidden state, (1, 128, 1024), and the pooled output, (1, 1024)."""
    return bert(dtype, Size(width=1024, layers=24, heads=16))
