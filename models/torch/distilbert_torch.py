"""DistilBERT (Sanh et al. 2019) with a classifier, sequence 64, fused attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


@model(name="distilbert_torch", family="encoder", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The class of one sequence; returns logits."""
    import transformers

    from opscope.models.frontends.torch import TorchBuilt, tokens, whole_mask

    def make() -> transformers.PreTrainedModel:
        return transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig())

    return TorchBuilt(make, (tokens(30522, 64), whole_mask(64)), outputs=("logits",))
