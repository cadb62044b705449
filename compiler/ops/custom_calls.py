"""The registry of custom calls: what becomes of each target that frameworks emit.

`hand_on`: its operands are its results. `lower`: a pattern in passes/stablehlo_to_ttir/custom_call.py. `host`: only the
host computes it, where `--unsupported-types=fallback` allows that. `never`: no compiler could, for the reason.
A target without a row is `notimpl`: another library's symbol.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

Way = Literal["hand_on", "lower", "host", "never"]


@dataclass(frozen=True)
class Target:
    """One row."""

    pattern: str
    """Pattern (fnmatch) of `call_target_name`."""
    way: Way
    reason: str


_ANNOTATION = "an annotation: says where a tensor is to lie, which the compiler decides itself"
_LAPACK = "a LAPACK routine, whose code is the host's"
_FOREIGN = "code of another device, which only that device runs"
TARGETS: tuple[Target, ...] = (
    Target("Sharding", "hand_on", _ANNOTATION),
    Target("SPMDFullToShardShape", "hand_on", _ANNOTATION),
    Target("SPMDShardToFullShape", "hand_on", _ANNOTATION),
    Target("xla.sdy.*", "hand_on", _ANNOTATION),
    Target("annotate_device_placement", "hand_on", _ANNOTATION),
    Target("LayoutConstraint", "hand_on", _ANNOTATION),
    Target("stablehlo.shape_refinement_operand_wrapper", "hand_on", "what is left of a refined shape"),
    Target("shape_assertion", "hand_on", "a check of sizes that are constants by now"),
    Target("mhlo.topk", "lower", "topk along the last dim"),
    Target("TopK", "lower", "topk along the last dim"),
    Target("ApproxTopK", "lower", "topk, which is the exact answer to an approximate question"),
    Target("lapack_strsm*", "lower", "triangular_solve, by its flags"),
    Target("lapack_*", "host", _LAPACK),
    Target("ducc_fft*", "host", "a transform of complex numbers, whose code is the host's"),
    Target("*python*callback*", "never", "calls a Python function of the process that exported it"),
    Target("cu*", "never", _FOREIGN),
    Target("__cu*", "never", _FOREIGN),
    Target("hip*", "never", _FOREIGN),
    Target("*triton*", "never", _FOREIGN),
    Target("mosaic*", "never", _FOREIGN),
    Target("tpu_*", "never", _FOREIGN),
    Target("neon_*", "never", _FOREIGN),
)


def find(name: str) -> Target | None:
    """The first row that names a target; None where none does."""
    return next((row for row in TARGETS if fnmatchcase(name, row.pattern)), None)
