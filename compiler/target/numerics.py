"""How ttnn computes where nothing else is asked for: fidelity, width of Dst, blocks of the inner dim, approximation.

Found by the bits of ttnn 0.81.1's own kernels (docs/conformance.md), apart from what its source says of compute
configurations.
"""

from __future__ import annotations

from collections.abc import Sequence

from opscope.compiler.target.formats import FORMATS, TILE
from opscope.compiler.target.program import Numerics, TensorDesc

PRODUCTS = frozenset({"matmul", "linear"})
PRODUCT_FIDELITY = {"Float32": "HiFi4", "Bfp8_b": "LoFi", "Bfp4_b": "LoFi"}
"""Format of a product's operands -> its fidelity; HiFi2 for others."""
SUMS = frozenset({"sum", "mean"})


def ttnn_numerics(kernel: str, inputs: Sequence[TensorDesc], output: str) -> Numerics:
    """Returns how ttnn computes a kernel of such inputs whose result has the format `output`."""
    formats = [*(desc.data_format for desc in inputs), output]
    exponents = {FORMATS[name].register_exponent_bits for name in formats if FORMATS[name].is_float}
    wide = len(exponents) > 1 or any(FORMATS[name].bits == 32 for name in formats)
    narrow = "Float16" if exponents == {5} else "Float16_b"
    if kernel in PRODUCTS:
        dst, tiles = "Float32" if wide else narrow, -(-inputs[0].shape[-1] // TILE)
        fidelity = PRODUCT_FIDELITY.get(formats[0], "HiFi2")
        return Numerics(fidelity, dst, k_block=2 if tiles % 2 == 0 else 1, intermediate=dst)
    return Numerics("HiFi4", "Float32" if wide or kernel in SUMS else narrow)
