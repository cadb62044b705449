"""Named ways to compute: fidelity, width of Dst and blocks of products where nothing else is asked for.

`hifi4` takes all bits and a Dst of 32 bits in the matrix unit. `ttnn` is what ttnn takes without a compute
configuration, as the bits of ttnn 0.81.1's own kernels show (docs/conformance.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import Numerics

PROFILES = ("hifi4", "ttnn")
_ORDER = ("LoFi", "HiFi2", "HiFi2_B", "HiFi3", "HiFi4")
BLOCKED = frozenset({"matmul", "linear"})
"""Products that ttnn makes in blocks of the inner dim, which are added in L1, but for those of float32."""
NORMS = frozenset({"batch_norm_inference", "batch_norm_training"})
"""Norms that ttnn computes on the vector unit."""
PRODUCTS = BLOCKED | {"conv2d", "conv3d"}
SUMS = frozenset({"sum", "mean"})
MATRIX = PRODUCTS | SUMS | {"sum_pool2d", "avg_pool2d"}
"""Kernels of the matrix unit, whose fidelity is a verdict's."""


ALL_BITS = "HiFi4"
"""The fidelity that ttnn takes for convolutions in 2D, of any format, and all that is no product."""


def product_fidelity(formats: Sequence[str]) -> str:
    """Returns the fidelity that ttnn takes for products, by the formats of the two operands."""
    kinds = {name if name == "Float32" else FORMATS[name].kind for name in formats[:2]}
    return {"Float32": ALL_BITS, "block": "LoFi"}.get(kinds.pop() if len(kinds) == 1 else "", "HiFi2")


def lowest(numerics: Iterable[Numerics]) -> tuple[str, bool]:
    """Returns the lowest fidelity of some calls, and whether one of them accumulates in fewer than 32 bits."""
    calls = list(numerics)
    fidelity = min((each.fidelity for each in calls), key=_ORDER.index, default="HiFi4")
    return fidelity, any(each.dst_format != "Float32" for each in calls)


def partial_results(dst_format: str, result: str, *, in_l1: bool) -> str:
    """Returns the format that ttnn gives to what blocks of a product leave: Dst's where they are added in L1 or it has
    32 bits, else the result's.
    """
    return dst_format if in_l1 or dst_format == "Float32" else result


def ttnn_numerics(kernel: str, inputs: Sequence[str], output: str, block: int = 1) -> Numerics:
    """Returns how ttnn computes a kernel, by the formats of its inputs and its result; `block`: tiles of the inner dim
    that a product adds up in L1 (`opscope.compiler.target.product_blocks.step_of`).
    """
    formats = [*inputs, output]
    exponents = {FORMATS[name].register_exponent_bits for name in formats if FORMATS[name].is_float}
    wide = len(exponents) > 1 or any(FORMATS[name].bits == 32 or name == "Fp8_e4m3" for name in formats)
    if kernel in BLOCKED and exponents == {8}:
        wide = output == "Float32"  # whatever the operands are
    dst = "Float32" if wide or kernel in SUMS else "Float16" if exponents == {5} else "Float16_b"
    if kernel in NORMS:
        return Numerics("HiFi4", "Float32")
    if kernel in ("softmax", "layer_norm", "rms_norm"):
        narrow = kernel == "rms_norm" or (kernel == "softmax" and not wide)
        return Numerics("HiFi4", "Float16_b" if kernel == "rms_norm" else "Float32", math_approx=narrow)
    if kernel in BLOCKED and not wide:
        return Numerics(product_fidelity(inputs), dst, k_block=block, intermediate=dst)
    return Numerics(product_fidelity(inputs) if kernel in BLOCKED | {"conv3d"} else ALL_BITS, dst)
