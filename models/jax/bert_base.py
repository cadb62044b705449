"""BERT-base, uncased (Devlin et al. 2018), sequence 128, with pooler: 109,482,240 parameters."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.jax.bert import TENSOR_PARALLEL, Size, bert
from opscope.models.registry import model


@model(name="bert_base", family="encoder", shardings=TENSOR_PARALLEL)
def build(dtype: str) -> Built:
    """One sequence; the last hidden state, (1, 128, 768), and the pooled output, (1, 768)."""
    return bert(dtype, Size(width=768, layers=12, heads=12))
