"""How a device computes beyond what its programs say: what its architecture does, and what a run asks for.

Signs of zero and NaN by tenstorrent/tt-isa-documentation, SFPMAD.md of WormholeB0 and BlackholeA0, and
Miscellaneous/FMA/README.md. Nothing is published of Grayskull: Wormhole's rules stand in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.compiler.target.rare_values import has_nan
from opscope.compiler.target.rounding import Image, bits, flush, flush_keeping_sign


@dataclass(frozen=True)
class Arithmetic:
    """The rules of one device in one run."""

    arch: str = "wormhole_b0"
    exact_order: bool = False
    """Whether products and sums are added in the device's own order (`opscope.simulator.kernels.addition_order`), and
    functions, softmax and norms made in the steps of ttnn's own kernels (`opscope.simulator.kernels.real`). Otherwise
    in one or two products of whole matrices (`opscope.simulator.kernels.matmul`), and by NumPy's functions."""
    random: np.random.Generator | None = None
    """Random bits by which the packer rounds; None: to nearest."""

    @property
    def keeps_sign_of_zero(self) -> bool:
        """Whether the vector unit's zeros have a sign: Blackhole's do, Wormhole's are all +0."""
        return self.arch == "blackhole"

    def operand(self, x: Image) -> Image:
        """`x` as the vector unit reads it: denormals are zeros."""
        return flush_keeping_sign(x) if self.keeps_sign_of_zero else flush(x)

    def result(self, x: Image) -> Image:
        """`x` as the vector unit leaves it in a Dst of 32 bits: denormals flushed, NaN in the architecture's form.

        Blackhole has one NaN, 0x7fc00000; what a kernel does to its sign is known in exact order alone. Wormhole's have
        the bits 0x7f800001, and others that public text does not settle: here those that the operands had.
        """
        x = self.operand(x)
        if (self.exact_order and self.keeps_sign_of_zero) or not has_nan(bits(x)):
            return x
        pattern, nan = bits(x).copy(), np.isnan(x)
        pattern[nan] = 0x7FC00000 if self.keeps_sign_of_zero else pattern[nan] | np.uint32(0x7F800001)
        return pattern.view(np.float32)


PLAIN = Arithmetic()
"""Wormhole's rules, nothing asked for."""
