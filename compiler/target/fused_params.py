"""Parameters of kernels that do what several ops do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SoftmaxParams:
    """`softmax` along `dim`."""

    dim: int
    stable: bool = True
    """Whether the largest element is subtracted first."""


@dataclass(frozen=True)
class NormParams:
    """`layer_norm` and `rms_norm` along the last dim; inputs 1 and 2, where there are any, are weight and bias.

    `batch_norm_inference` and `batch_norm_training` over all dims but the second: their kernels name the inputs.
    """

    epsilon: float


@dataclass(frozen=True)
class AttentionParams:
    """`scaled_dot_product_attention` of query, key, value and perhaps a mask that is added to the scores.

    Its `_decode` forms are of one position of each user, after the inputs that their rows list.
    """

    scale: float = 1.0
    is_causal: bool = False
    """Whether no position sees those after it."""
    window: int = 0
    """How many positions each sees, 0: all. The last ones up to its own, or around it where it sees those after."""
    has_sink: bool = False
    """Whether the last input is one more score for each head, before `scale`, which takes its share of the sum."""


@dataclass(frozen=True)
class CacheParams:
    """`update_cache`, `fill_cache` and their paged forms: the cache is input 0, what is written input 1."""

    batch_offset: int = 0
    """The first batch of the cache that is written."""
