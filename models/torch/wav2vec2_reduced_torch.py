"""wav2vec 2.0 base (Baevski et al. 2020), reduced: 2 of 12 layers and a quarter of a second of sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.registry import model

if TYPE_CHECKING:
    from models.frontends.torch import TorchBuilt


@model(name="wav2vec2_reduced_torch", family="audio", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """Letters of a waveform; returns logits. Weight norm is beyond tracing: the route is by torch.export."""
    import transformers

    from models.frontends.torch import TorchBuilt, values

    def make() -> transformers.PreTrainedModel:
        return transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(num_hidden_layers=2))

    return TorchBuilt(make, (values("input_values", (1, 4000), dtype),), outputs=("logits",), route="export")
