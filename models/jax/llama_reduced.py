"""Llama 3.1 (Grattafiori et al. 2024) for a mesh of up to 8: 2 of 32 layers, width 512 of 4096, all 8 heads of keys."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.jax.llama import TENSOR_PARALLEL, Size, llama
from opscope.models.registry import model


@model(name="llama_reduced", family="decoder", size="reduced", shardings=TENSOR_PARALLEL)
def build(dtype: str) -> Built:
    """The decoder of one sequence without cache; returns the logits of the next token, (1, 64, 4096)."""
    return llama(dtype, Size(4096, sequence=64, width=512, layers=2, heads=16, groups=8, inner=1792))
