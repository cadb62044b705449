"""GPT-2 small (Radford et al. 2019) as transformers has it, sequence 64: the second framework beside `gpt2_small`."""

from __future__ import annotations

from opscope.models.frontends.torch import TorchBuilt, tokens
from opscope.models.registry import model


@model(name="gpt2_torch", family="decoder", framework="torch")
def build(dtype: str) -> TorchBuilt:
    """The next token's logits at every place."""
    import transformers

    config = transformers.GPT2Config(attn_implementation="eager")
    return TorchBuilt(
        lambda: transformers.GPT2LMHeadModel(config),
        (tokens(50257, 64),),
        outputs=("logits",),
        keywords={"use_cache": False},
    )
