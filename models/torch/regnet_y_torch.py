"""RegNetY-4GF (Radosavovic et al. 2020): grouped convolutions with squeeze and excitation, 224x224, batch 1."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, image
from opscope.models.registry import model


@model(name="regnet_y_torch", family="cnn", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The classifier of one image; returns logits."""
    import transformers

    config = transformers.RegNetConfig(num_labels=1000)
    return TorchBuilt(
        lambda: transformers.RegNetForImageClassification(config), (image(224, dtype),), outputs=("logits",)
    )
