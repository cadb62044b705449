"""T5-small (Raffel et al. 2019) as transformers has it: 32 tokens in, 16 out, relative positions."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="t5_small_torch", family="encoder_decoder", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place of the output."""
    import transformers

    inputs = (tokens(32128, 32), tokens(32128, 16, name="decoder_input_ids"))
    return TorchBuilt(
        lambda: transformers.T5ForConditionalGeneration(transformers.T5Config()),
        inputs,
        outputs=("logits",),
        keywords={"use_cache": False},
    )
