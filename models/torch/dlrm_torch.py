"""DLRM (Naumov et al. 2019), reduced: 8 tables of 10,000 rows in place of 26 of up to 40 million."""

from __future__ import annotations

import itertools

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="dlrm_torch", family="recommender", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The probability of a click for each of 64 samples, (64, 1)."""
    import torch
    from torch import nn

    tables, rows, width, bag = 8, 10_000, 64, 4

    def tower(*widths: int) -> list[nn.Module]:
        pairs = itertools.pairwise(widths)
        return [layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())]

    class Dlrm(nn.Module):
        """Bottom tower, tables, pairwise products, top tower."""

        def __init__(self) -> None:
            super().__init__()
            self.embeddings = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
            self.bottom = nn.Sequential(*tower(13, 512, 256, width))
            pairs = (tables + 1) * tables // 2
            self.top = nn.Sequential(*tower(width + pairs, 512, 256), nn.Linear(256, 1), nn.Sigmoid())

        def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
            """Click probabilities."""
            x = self.bottom(dense)
            bags = [table(sparse[:, i]).sum(1) for i, table in enumerate(self.embeddings)]
            vectors = torch.stack([x, *bags], 1)
            products = torch.bmm(vectors, vectors.transpose(1, 2)) / width
            row, column = torch.tril_indices(tables + 1, tables + 1, -1)
            return self.top(torch.cat([x, products[:, row, column]], 1))

    inputs = (values("dense", (64, 13), dtype), values("sparse", (64, tables, bag), "int32", f"int:0:{rows}"))
    return TorchBuilt(Dlrm, inputs)
