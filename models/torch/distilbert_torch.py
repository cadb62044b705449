"""DistilBERT (Sanh et al. 2019) with a classifier, sequence 64, fused attention."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens, whole_mask
from opscope.models.registry import model


@model(name="distilbert_torch", family="encoder", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The class of one sequence; returns logits."""
    import transformers

    return TorchBuilt(
        lambda: transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig()),
        (tokens(30522, 64), whole_mask(64)),
        outputs=("logits",),
    )
