"""A tagger by a two-layer bidirectional LSTM (Huang et al. 2015), reduced: 12 words, as every step is unrolled."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="bilstm_torch", family="recurrent", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The tag of each word of two sentences, (2, 12, 17)."""
    import torch
    from torch import nn

    class Tagger(nn.Module):
        """Words to tags."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(10_000, 128)
            self.lstm = nn.LSTM(128, 128, 2, batch_first=True, bidirectional=True)
            self.tags = nn.Linear(256, 17)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            """Logits."""
            return self.tags(self.lstm(self.words(words))[0])

    return TorchBuilt(Tagger, (tokens(10_000, 12, batch=2, name="words"),))
