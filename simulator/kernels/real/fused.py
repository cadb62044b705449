"""softmax and norms of ttnn's own kernels on Blackhole, bit for bit: which unit does each step, what holds its result.

By ttnn 0.81.1's softmax.cpp, layernorm.cpp (ttnn/operations/normalization) and numeric.h of their kernel_util. The
matrix unit subtracts, multiplies and sums: it reads its operands as TF32, where Dst has 16 bits as bfloat16. Between
two steps results lie in L1 as float32, softmax's approximate exponentials as bfloat16. This, and what ttnn takes by
itself (`opscope.compiler.target.numerics`), was fitted to recorded runs, all of whose bits it gives. Softmax along
other dims than the last follows moreh_softmax_h.cpp and moreh_softmax_c_large.cpp, `batch_norm` batch_norm_kernel.cpp
and batch_norm_sfpu_kernel.cpp.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from opscope.compiler.target.formats import FORMATS, TILE
from opscope.compiler.target.program import Numerics
from opscope.compiler.target.rounding import Image, bits, quantise
from opscope.simulator.kernels.addition_order import added, column_products, elementwise_product, in_dst, product, read
from opscope.simulator.kernels.matmul import PHASES
from opscope.simulator.kernels.real import functions
from opscope.simulator.kernels.real.vector_unit import (
    Number,
    from_bits,
    larger,
    multiply,
    multiply_add,
    reciprocal_seed,
    subtract,
    to_integer,
)

HALF_TILE = FORMATS["Float16_b"].tile_bytes
ROOM = 0.95 * 1464 * 2**10
"""Of Blackhole's L1, as the kernel's choice counts it."""


@dataclass(frozen=True)
class Steps:
    """The steps of a kernel on the units of a core."""

    numerics: Numerics

    @property
    def wide(self) -> bool:
        """Whether Dst has 32 bits."""
        return self.numerics.dst_format == "Float32"

    def read(self, x: Number) -> Image:
        """What the matrix unit reads of `x`."""
        return read(np.asarray(x, np.float32), self.numerics.dst_format)

    def in_dst(self, x: Image, mode: str = "away") -> Image:
        """`x` once it is in Dst."""
        return in_dst(x, self.numerics.dst_format, mode)

    def add(self, a: Image, b: Number) -> Image:
        """a + b on the matrix unit."""
        return added(a, np.asarray(b, np.float32), self.numerics.dst_format)

    def multiply(self, a: Image, b: Image) -> Image:
        """a b on the matrix unit."""
        phases, dst = PHASES[self.numerics.fidelity], self.numerics.dst_format
        return elementwise_product(self.read(a), self.read(b), phases, dst)

    def sum(self, x: Image) -> Image:
        """Sums along the last dim on the matrix unit, as a column."""
        ones = np.ones((x.shape[-1], 1), np.float32)
        return product(self.read(x), ones, PHASES[self.numerics.fidelity], self.numerics.dst_format)

    def mean(self, x: Image) -> Image:
        """The sum on the matrix unit times 1 / N on the vector unit."""
        return self.in_dst(multiply(self.sum(x), np.float32(1) / np.float32(x.shape[-1])), "truncate")


def fast_exp(x: Image) -> Image:
    """exp with one bit below bfloat16's last: x / ln 2 as fixed point, whose bits are those of the result
    (ckernel_sfpu_exp.h, with `APPROXIMATION_MODE`)."""
    fixed = multiply_add(256 * 1.4426950408889634, larger(x, np.float32(-88.5)), 32500.818359375)
    return from_bits(to_integer(fixed, 0xFFFF) << 15)


def fast_rsqrt(x: Image) -> Image:
    """1 over the square root with 10 bits (ckernel_sfpu_sqrt.h, with `APPROXIMATION_MODE`)."""
    y = from_bits(0x5F0B3892 - (bits(x) >> 1).astype(np.int64))
    return multiply(y, multiply_add(-y, multiply(x, y), 1.89099014875))


def softmax(x: Image, numerics: Numerics, *, stable: bool) -> Image:
    """Exponentials over their sum along the last dim."""
    steps = Steps(numerics)
    x = steps.add(x, -steps.read(x).max(-1, keepdims=True, initial=-np.inf)) if stable else steps.read(x)
    if numerics.math_approx:
        raised = quantise(steps.in_dst(fast_exp(x), "truncate"), "Float16_b")
    else:
        raised = steps.in_dst(functions.exp(x, wide=steps.wide))
    inverse = steps.in_dst(functions.reciprocal(steps.sum(raised), wide=steps.wide), "truncate")
    return steps.multiply(raised, inverse)


def softmax_across(x: Image, numerics: Numerics, *, rows: bool) -> Image:
    """The same of what other dims than the last hold, moved there: `rows` of the tiles, or whole tiles, which are added
    one after another. The largest is always subtracted (moreh_softmax_h.cpp, moreh_softmax_c_large.cpp)."""
    steps = Steps(numerics)
    x = steps.add(x, -steps.read(x).max(-1, keepdims=True, initial=-np.inf))
    raised = steps.in_dst(functions.exp(steps.read(x), wide=steps.wide))
    if rows:
        flat = np.ascontiguousarray(steps.read(raised).reshape(-1, x.shape[-1]).T)
        total = column_products(1.0, flat, PHASES[numerics.fidelity], numerics.dst_format).reshape(*x.shape[:-1], 1)
    else:
        total = steps.read(functools.reduce(steps.add, np.moveaxis(raised, -1, 0)))[..., None]
    inverse = reciprocal_seed(total) if numerics.math_approx else functions.reciprocal(total, wide=steps.wide)
    return steps.multiply(raised, steps.in_dst(inverse, "truncate"))


def fits(width: int, formats: list[str], numerics: Numerics, *, centred: bool) -> bool:
    """Whether L1 has room for the buffers of a norm's whole rows: what goes in, in these formats, squares, and what is
    centred (layernorm_op_multi_core.cpp; what counts and how much room there is, by recorded runs)."""
    tiles, between = -(-width // TILE), FORMATS[numerics.dst_format].tile_bytes
    block = next(n for n in range(4 if between > HALF_TILE else 8, 0, -1) if tiles % n == 0)
    own = FORMATS[formats[0]].tile_bytes
    rows = tiles * ((1 + centred) * between + sum(FORMATS[name].tile_bytes for name in formats))
    return rows + 4 * block * (own + between) + 12 * between + 4 * HALF_TILE < ROOM


def norm(
    x: Image, vectors: list[Image], epsilon: float, numerics: Numerics, *, centred: bool, whole: bool = True
) -> Image:
    """x, or x minus its mean, over the root of its mean square along the last dim; times a weight, plus a bias.
    Where L1 does not hold `whole` rows, the vector unit makes the squares (layernorm_large_tensor.cpp)."""
    steps = Steps(numerics)
    if centred:
        x = steps.add(x, -steps.read(steps.mean(x)))
    in_dst = x if centred else steps.read(x)
    squares = steps.multiply(x, x) if whole else functions.square(in_dst, wide=steps.wide)
    square = steps.add(steps.mean(squares), np.float32(epsilon))
    root = fast_rsqrt(square) if numerics.math_approx else functions.rsqrt(square, wide=steps.wide)
    value = steps.multiply(x, steps.in_dst(root))
    if vectors:
        value = steps.multiply(value, vectors[0])
    return steps.add(value, vectors[1]) if len(vectors) > 1 else value


def batch_norm(
    x: Image, mean: Image, variance: Image, vectors: list[Image], epsilon: float, numerics: Numerics, data_format: str
) -> Image:
    """x minus a mean, over the root of a variance, times a weight, plus a bias: with a Dst of 32 bits on the vector
    unit, else on the matrix unit. 1 over the root passes L1 in the format of x.
    """
    steps, small = Steps(numerics), np.float32(epsilon)
    root = multiply_add(variance, 1, small) if steps.wide else steps.add(variance, small)
    inverse = quantise(steps.in_dst(functions.rsqrt(root, wide=steps.wide)), data_format)
    if steps.wide:
        value = multiply(subtract(x, mean), inverse)
        value = multiply(value, vectors[0]) if vectors else value
        return multiply_add(value, 1, vectors[1]) if len(vectors) > 1 else value
    value = steps.multiply(steps.add(x, -mean), inverse)
    value = steps.multiply(value, vectors[0]) if vectors else value
    return steps.add(value, vectors[1]) if len(vectors) > 1 else value
