"""Graph attention network (Velickovic et al. 2018) of torch_geometric, reduced: half of Cora's nodes and edges."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, values
from opscope.models.registry import model


@model(name="gat_torch", family="graph", framework="torch", size="reduced")
def build(dtype: str) -> TorchBuilt:
    """The logits of each of 1,354 nodes, given their features and 5,278 random edges."""
    from torch_geometric.nn import GAT

    inputs = (values("x", (1354, 1433), dtype), values("edge_index", (2, 5278), "int32", "int:0:1354"))
    return TorchBuilt(lambda: GAT(1433, 64, 2, 7, heads=8, add_self_loops=False), inputs, positional=True)
