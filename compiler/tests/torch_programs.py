"""PyTorch's own ops for language models' inference, as modules and their authors write them, and how to export them.

Imports torch and torchax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, softmax

from opscope.models.arguments import ArgSpec
from opscope.models.frontends.jax import lower
from opscope.models.frontends.torch import TorchBuilt, to_jax
from opscope.models.frontends.torch_modules import call_module
from opscope.models.seeding import draw


class Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)


class LlamaNorm(torch.nn.Module):
    """As Hugging Face writes it: in float32 whatever the type, times the weight in the type."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(64))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """`apply_rotary_pos_emb` of Hugging Face's Llama."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cosine.unsqueeze(1) + turned * sine.unsqueeze(1)


def shared(key: Tensor) -> Tensor:
    """`repeat_kv` of Hugging Face."""
    batch, heads, length, width = key.shape
    return key[:, :, None].expand(batch, heads, 2, length, width).reshape(batch, heads * 2, length, width)


def eager(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """`eager_attention_forward` of Hugging Face."""
    weights = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5 + mask
    return softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype) @ value


def step(query: Tensor, keys: Tensor, values: Tensor, key: Tensor, value: Tensor, place: Tensor) -> tuple[Tensor, ...]:
    """A step of a decoder with a static cache."""
    keys, values = copied(keys, key, place), copied(values, value, place)
    seen = (torch.arange(24, device=query.device)[None] <= place[:, None])[None, None]
    return scaled_dot_product_attention(query, keys, values, attn_mask=seen), keys, values


def copied(cache: Tensor, new: Tensor, places: Tensor) -> Tensor:
    return cache.clone().index_copy_(2, places, new)


def assigned(cache: Tensor, new: Tensor, places: Any) -> Tensor:
    cache = cache.clone()
    cache[:, :, places] = new
    return cache


def first(cache: Tensor, new: Tensor) -> Tensor:
    return copied(cache, new, torch.arange(9, device=cache.device))


def values(*shape: int) -> ArgSpec:
    return ArgSpec("x", shape, "float32", "normal:1", "input")


def whole(shape: Sequence[int], end: int, start: int = 0) -> ArgSpec:
    return ArgSpec("i", tuple(shape), "int32", f"int:{start}:{end}", "input")


Q, KV, CACHE, NEW, MASK = (
    values(2, 4, 16, 32),
    values(2, 2, 16, 32),
    values(2, 4, 24, 32),
    values(2, 4, 1, 32),
    (values(2, 1, 16, 16)),
)
PLACE, ANGLES, ROWS = whole((1,), 23), values(2, 16, 32), values(2, 7, 64)
causal = partial(scaled_dot_product_attention, is_causal=True)
FORMS: dict[str, tuple[Callable[..., Any], list[ArgSpec]]] = {
    "attention": (scaled_dot_product_attention, [Q, Q, Q]),
    "attention, causal": (causal, [Q, Q, Q]),
    "attention, heads that share keys": (partial(causal, enable_gqa=True), [Q, KV, KV]),
    "attention, keys repeated": (lambda q, k, v: causal(q, shared(k), shared(v)), [Q, KV, KV]),
    "attention, a mask of booleans": (
        lambda q, k, v, m: scaled_dot_product_attention(q, k, v, attn_mask=m > -1),
        [Q, Q, Q, MASK],
    ),
    "attention, a mask that is added": (scaled_dot_product_attention, [Q, Q, Q, MASK]),
    "attention, eager": (eager, [Q, Q, Q, MASK]),
    "a step with a cache": (step, [NEW, CACHE, CACHE, NEW, NEW, PLACE]),
    "RMSNorm": (lambda: torch.nn.RMSNorm(64, eps=1e-5), [ROWS]),
    "RMSNorm, Llama": (LlamaNorm, [ROWS]),
    "LayerNorm": (lambda: torch.nn.LayerNorm(64), [ROWS]),
    "Embedding": (lambda: torch.nn.Embedding(50, 64), [whole((2, 7), 50)]),
    "rotary": (rotated, [Q, ANGLES, ANGLES]),
    "index_copy of one position": (copied, [CACHE, NEW, PLACE]),
    "index_copy of the first": (first, [CACHE, values(2, 4, 9, 32)]),
    "assignment of one position": (assigned, [CACHE, NEW, PLACE]),
    "assignment of a slice": (lambda c, x: assigned(c, x, slice(0, 9)), [CACHE, values(2, 4, 9, 32)]),
    "argmax": (lambda x: x.argmax(-1), [values(3, 100)]),
    "cumsum": (lambda x: x.cumsum(-1), [values(3, 40)]),
    # What differs in one point.
    "places known at run time": (copied, [CACHE, values(2, 4, 9, 32), whole((9,), 20)]),
    "a slice further on": (lambda c, x: assigned(c, x, slice(2, 11)), [CACHE, values(2, 4, 9, 32)]),
    "a part of each head": (lambda c, x: c.slice_scatter(x, 3, 0, 9), [CACHE, values(2, 4, 24, 9)]),
}
"""Form -> a function or what makes a module, and its inputs."""
MODULES = {"RMSNorm", "RMSNorm, Llama", "LayerNorm", "Embedding"}


def exported(name: str) -> tuple[bytes, TorchBuilt, list[np.ndarray]]:
    """StableHLO of a form, how it was built, and seeded arguments."""
    function, inputs = FORMS[name]
    make = function if name in MODULES else (lambda: Called(function))
    numbered = (replace(spec, name=f"{spec.name}{at}") for at, spec in enumerate(inputs))
    built = TorchBuilt(make, tuple(numbered), positional=True)
    built_in_jax = to_jax(built, "float32")
    drawn = [draw(spec.law, spec.shape, spec.dtype, 0, at) for at, spec in enumerate(built_in_jax.arguments)]
    return lower(built_in_jax, "form"), built, drawn


def by_torch(built: TorchBuilt, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """The results of PyTorch's eager mode."""
    module = built.make()
    parameters = list(module.parameters())
    tensors = [torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x) for x in arguments]
    with torch.no_grad():
        for parameter, value in zip(parameters, tensors, strict=False):
            parameter.copy_(value)
        return [result.numpy() for result in call_module(module, built, tensors[len(parameters) :])]
