"""SmolLM 135M (Allal et al. 2024), a decoder as Llama is one: 134,515,008 parameters."""

from __future__ import annotations

from opscope.models.arguments import Built
from opscope.models.jax.llama import Size, llama
from opscope.models.registry import model


@model(name="smollm_135m", family="decoder")
def build(dtype: str) -> Built:
    """The decoder of one sequence without cache; returns the logits of the next token, (1, 64, 49152)."""
    return llama(dtype, Size(49152, sequence=64, width=576, layers=30, heads=9, groups=3, inner=1536))
