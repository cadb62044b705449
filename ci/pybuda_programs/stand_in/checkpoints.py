"""Sizes of published checkpoints, from their configurations: a pattern of the name, the family, what differs from its
defaults."""

from __future__ import annotations

import re
from typing import Any

_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_T5 = {
    "small": {"d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
    "base": {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
    "large": {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16},
}
_GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
_SEGFORMER = {"hidden_sizes": [64, 128, 320, 512], "decoder_hidden_size": 768}
_PERCEIVER = {
    "num_latents": 512,
    "d_latents": 1024,
    "num_blocks": 8,
    "num_self_attends_per_block": 6,
    "num_cross_attention_heads": 1,
}

SIZES: list[tuple[str, str, dict[str, Any]]] = [
    (r"distilbert", "distilbert", {}),
    (r"squeezebert", "squeezebert", {}),
    (r"xlm-roberta|roberta", "roberta", {"vocab_size": 50265, "max_position_embeddings": 514}),
    (r"albert.*xxlarge", "albert", {}),
    (
        r"albert.*xlarge",
        "albert",
        {"hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 8192, "num_hidden_layers": 24},
    ),
    (
        r"albert.*large",
        "albert",
        {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096, "num_hidden_layers": 24},
    ),
    (r"albert", "albert", {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}),
    (
        r"bert-tiny",
        "bert",
        {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
    ),
    (r"bert.*large", "bert", _LARGE),
    (r"bert", "bert", {}),
    (r"dpr", "dpr", {}),
    (r"flan-t5-(small|base|large)", "t5", _GATED),
    (r"t5", "t5", {}),
    (r"gpt2", "gpt2", {}),
    (
        r"gpt-neo-125",
        "gpt_neo",
        {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "attention_types": [[["global", "local"], 6]]},
    ),
    (r"gpt-neo", "gpt_neo", {}),
    (r"opt-125m", "opt", {}),
    (
        r"opt-350m",
        "opt",
        {
            "hidden_size": 1024,
            "ffn_dim": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "word_embed_proj_dim": 512,
            "do_layer_norm_before": False,
        },
    ),
    (
        r"opt",
        "opt",
        {
            "hidden_size": 2048,
            "ffn_dim": 8192,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "word_embed_proj_dim": 2048,
        },
    ),
    (r"codegen-350M", "codegen", {"n_embd": 1024, "n_layer": 20, "n_head": 16, "rotary_dim": 32, "vocab_size": 51200}),
    (r"falcon-7b", "falcon", {"hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71}),
    (r"xglm", "xglm", {}),
    (
        r"phi-2",
        "phi",
        {
            "hidden_size": 2560,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 10240,
            "partial_rotary_factor": 0.4,
        },
    ),
    (
        r"[Qq]wen1.5",
        "qwen2",
        {
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "intermediate_size": 2816,
        },
    ),
    (
        r"whisper-tiny",
        "whisper",
        {
            "d_model": 384,
            "encoder_layers": 4,
            "decoder_layers": 4,
            "encoder_attention_heads": 6,
            "decoder_attention_heads": 6,
            "encoder_ffn_dim": 1536,
            "decoder_ffn_dim": 1536,
        },
    ),
    (r"whisper", "whisper", {}),
    (r"fuyu", "fuyu", {}),
    (r"mobilenet_v1", "mobilenet_v1", {}),
    (r"mobilenet_v2", "mobilenet_v2", {}),
    (r"clip", "clip", {}),
    (r"deit", "deit", {}),
    (r"vit.*large", "vit", _LARGE),
    (r"vilt", "vilt", {}),
    (r"vit", "vit", {}),
    (r"beit.*large", "beit", _LARGE),
    (r"beit", "beit", {}),
    (r"resnet-50", "resnet", {}),
    (r"vision-perceiver-learned", "perceiver", _PERCEIVER | {"d_model": 512}),
    (r"vision-perceiver-conv", "perceiver", _PERCEIVER | {"d_model": 322}),
    (r"perceiver", "perceiver", _PERCEIVER | {"d_model": 261}),
    (r"mit-b0|segformer-b0", "segformer", {}),
    (r"mit-b1|segformer-b1", "segformer", {"hidden_sizes": [64, 128, 320, 512]}),
    (r"mit-b2|segformer-b2", "segformer", _SEGFORMER | {"depths": [3, 4, 6, 3]}),
    (r"mit-b3|segformer-b3", "segformer", _SEGFORMER | {"depths": [3, 4, 18, 3]}),
    (r"mit-b|segformer-b", "segformer", _SEGFORMER | {"depths": [3, 8, 27, 3]}),
]
"""The first row whose pattern is in the name counts."""


def size_of(name: str) -> tuple[str, dict[str, Any]]:
    """Returns family and differences of a checkpoint. Raises LookupError for one that is not in the table."""
    for pattern, family, differs in SIZES:
        if re.search(pattern, name):
            if family == "t5":
                size = re.search("small|base|large", name)
                differs = differs | _T5[size.group() if size else "small"] | {"decoder_start_token_id": 0}
            return family, dict(differs)
    raise LookupError(f"checkpoint {name}: expected one of the table, got none")
