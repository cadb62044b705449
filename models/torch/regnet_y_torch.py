"""RegNetY-4GF (Radosavovic et al. 2020): grouped convolutions with squeeze and excitation, 224x224, batch 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


@model(name="regnet_y_torch", family="cnn", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    from opscope.models.frontends.torch import TorchBuilt, image

    def make() -> transformers.PreTrainedModel:
        config = transformers.RegNetConfig(num_labels=1000)
        return transformers.RegNetForImageClassification(config)

    return TorchBuilt(make, (image(224, dtype),), outputs=("logits",))
