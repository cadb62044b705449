"""The encoder of BERT-base (Devlin et al. 2018) on a simulated card, with random weights and random embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.demos.card import SEED, on_a_card, seeded, sizes
from opscope.models.seeding import draw

if TYPE_CHECKING:
    import torch


def main() -> None:
    """Builds the model, and runs it."""
    asked = sizes(__doc__, {}, layers=12, hidden=768, heads=12, sequence=128)
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            hidden = asked.hidden
            self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))
            self.norm, self.last_norm = nn.LayerNorm(hidden, 1e-12), nn.LayerNorm(hidden, 1e-12)
            self.wide, self.narrow = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, length, hidden = x.shape
            size = hidden // asked.heads

            def heads(of: torch.Tensor) -> torch.Tensor:
                return of.reshape(batch, length, asked.heads, size).transpose(1, 2)

            query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
            scores = torch.softmax(query @ key.transpose(2, 3) / size**0.5, dim=-1)
            seen = (scores @ value).transpose(1, 2).reshape(batch, length, hidden)
            x = self.norm(x + self.out(seen))
            return self.last_norm(x + self.narrow(nn.functional.gelu(self.wide(x))))

    embedded = draw("normal:1", (1, asked.sequence, asked.hidden), "float32", SEED + 1, 0)
    model = seeded(nn.Sequential(*(Layer() for _ in range(asked.layers))))
    on_a_card("bert", model, [torch.from_numpy(embedded)], asked)


if __name__ == "__main__":
    main()
