"""The matrix unit: `matmul`, and the product that convolution and int8 layers share with it.

Operand 0 sits in SrcB (1 + 6 bits of mantissa per phase), operand 1 in SrcA (1 + 4 bits); Float32 enters as TF32 by
truncation. With L = Lh + Ll and R = Rh + Rl the fidelities are LoFi Lh.Rh, HiFi2 Lh.R, HiFi3 Lh.R + Ll.Rh, HiFi4 L.R,
HiFi2_B L.Rh: of the phases Lh.Rh, Lh.Rl, Ll.Rh, Ll.Rl it takes the first and the third
(tt-isa-documentation, WormholeB0: SrcASrcB.md, MVMUL.md, ELWMUL.md). Products are summed in float32; a 16-bit Dst
rounds after every 16 of them.

By default the phases are one or two products of whole matrices. With `exact_order` products are added as the unit adds
them (`addition_order.py`). Both sum the same products. In a group of eight the unit rounds each but the largest to
2^-11 of that one, so that, where Dst has 32 bits, they differ by at most 2^-8 of the sum of the groups' largest
products, and (K + K / 2) 2^-24 of the sum of the products' sizes. Of random products this is some 2^-13 of the result.

The unit knows neither Inf nor NaN: exponent 255 is a number like others (FloatBitPatterns.md), and a sum of 2^128 or
more becomes Inf. A product that is not finite in IEEE arithmetic is computed again that way, in float64 and rounded
once: where several partial sums overflow in turn, the unit's own result may differ.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opscope.compiler.target.formats import FORMATS, TILE
from opscope.compiler.target.program import MatmulParams, Numerics
from opscope.compiler.target.rare_values import has_special
from opscope.compiler.target.rounding import as_number, bits, block_product, flush, keep_bits, kept, quantise
from opscope.simulator.kernels import addition_order
from opscope.simulator.kernels.addition_order import PHASES, overflowed
from opscope.simulator.kernels.eltwise import (
    ACTIVATIONS,
    SRC_A_FULL,
    SRC_A_HIGH,
    SRC_B_FULL,
    SRC_B_HIGH,
    real_function,
)
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of

FIDELITIES = {name: len(phases) for name, phases in PHASES.items()}
"""Number of phases of each fidelity."""
MVMUL_DEPTH = 16
"""Products summed before Dst is rounded."""
NARROW_INTEGERS = frozenset({"i8", "ui8", "i1"})
"""Element types whose products the unit computes as "integer 8", adding them into an Int32 Dst that saturates at
+-(2^31 - 1) (MVMUL.md). Only the whole sum saturates here: partial sums that overflow and come back do not. Wider
integers are no operands of the unit: their products wrap, as StableHLO's do."""
INT32_MAX = 2**31 - 1


def _checked(fidelity: str) -> tuple[int, ...]:
    """The phases that are taken. Raises ValueError for an unknown fidelity."""
    if fidelity not in PHASES:
        raise ValueError(f"fidelity: expected {', '.join(PHASES)}, got {fidelity!r}")
    return PHASES[fidelity]


def _remainder(x: np.ndarray, full: int, high: np.ndarray) -> np.ndarray:
    """The bits of `x` that its first phase leaves to a later one; 0 where `x` is infinite."""
    return np.where(np.isfinite(x), keep_bits(x, full) - high, np.float32(0))


def as_left(x: np.ndarray) -> np.ndarray:
    """What all phases together read of a left operand; integers as they are."""
    return kept(x, SRC_B_FULL) if x.dtype.kind == "f" else x


def phase_operands(
    left: np.ndarray, right: np.ndarray, fidelity: str, *, is_left: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The one or two pairs (left, right) whose products add up to the fidelity's phases.

    `is_left`: `left` is what `as_left` makes of something.
    """
    phases = _checked(fidelity)
    if len(phases) == 4:
        return [(left if is_left else kept(left, SRC_B_FULL), kept(right, SRC_A_FULL))]
    left, right = left if is_left else flush(left), flush(right)
    if phases == (0, 2):
        return [(keep_bits(left, SRC_B_FULL), keep_bits(right, SRC_A_HIGH))]
    high = keep_bits(left, SRC_B_HIGH)
    if len(phases) == 1:
        return [(high, keep_bits(right, SRC_A_HIGH))]
    pairs = [(high, keep_bits(right, SRC_A_FULL))]
    if len(phases) == 3:
        pairs.append((_remainder(left, SRC_B_FULL, high), keep_bits(right, SRC_A_HIGH)))
    return pairs


def single_phases(left: np.ndarray, right: np.ndarray, fidelity: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """The pairs of every single phase, after each of which a 16-bit Dst rounds."""
    left, right = flush(left), flush(right)
    left_high, right_high = keep_bits(left, SRC_B_HIGH), keep_bits(right, SRC_A_HIGH)
    right_low = _remainder(right, SRC_A_FULL, right_high)
    left_low = _remainder(left, SRC_B_FULL, left_high)
    pairs = [(left_high, right_high), (left_high, right_low), (left_low, right_high), (left_low, right_low)]
    return [pairs[phase] for phase in _checked(fidelity)]


def product_of(
    left: np.ndarray, right: np.ndarray, call: Call, *, is_left: bool = False, all_in_l1: bool = False
) -> np.ndarray:
    """`matrix_product` as a call asks for it."""
    if left.dtype.kind != "f" and all(desc.element_type in NARROW_INTEGERS for desc in call.inputs[:2]):
        exact = np.matmul(left.astype(np.float64), right.astype(np.float64))
        return np.clip(exact, -INT32_MAX, INT32_MAX).astype(np.int64)
    if call.arithmetic.exact_order and call.numerics.dst_format == "Float16_b":  # which cuts float32 as it is read
        left, right = (
            addition_order.read(x, "Float16_b") if desc.data_format == "Float32" else x
            for x, desc in zip((left, right), call.inputs, strict=False)
        )
    return matrix_product(
        left,
        right,
        call.numerics,
        source=call.inputs[0].data_format,
        exact_order=call.arithmetic.exact_order,
        is_left=is_left,
        all_in_l1=all_in_l1,
    )


def matrix_product(
    left: np.ndarray,
    right: np.ndarray,
    numerics: Numerics,
    *,
    source: str = "Float32",
    exact_order: bool = False,
    is_left: bool = False,
    all_in_l1: bool = False,
) -> np.ndarray:
    """left (..., M, K) times right (..., K, N) as the unit computes it; leading dims broadcast.

    `source`: the number format of the operands, which says what their Inf and NaN stand for. `is_left`: `left` is what
    `as_left` makes of something, as of an image before its windows are copied.
    """
    if left.dtype.kind != "f":
        return integer_product(left, right)
    if exact_order:
        if source in FORMATS and FORMATS[source].exponent_bits < 8:
            left, right = (as_number(x, source).astype(np.float32) for x in (left, right))
        phases, dst = _checked(numerics.fidelity), numerics.dst_format
        block, between = numerics.k_block, numerics.intermediate
        return addition_order.product(left, right, phases, dst, block, between, all_in_l1=all_in_l1)
    if numerics.dst_format == "Float32":
        pairs = phase_operands(left, right, numerics.fidelity, is_left=is_left)
    else:
        pairs = single_phases(left, right, numerics.fidelity)
    depth = left.shape[-1]
    block = numerics.k_block * TILE or max(depth, 1)
    total = _block_product(pairs, 0, min(block, depth), numerics.dst_format)
    for start in range(block, depth, block):
        partial = _block_product(pairs, start, min(start + block, depth), numerics.dst_format)
        # Partial results go to L1 in the intermediate format and come back to be added to.
        total = quantise(total, numerics.intermediate) + partial
    return total if not has_special(bits(total)) else _unbounded_product(left, right, numerics, source)


def _unbounded_product(left: np.ndarray, right: np.ndarray, numerics: Numerics, source: str) -> np.ndarray:
    """The product where exponent 255 is a number and no sum is NaN; Inf from 2^128 on."""

    def parts(x: np.ndarray, full: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        whole, first = as_number(keep_bits(flush(x), full), source), as_number(keep_bits(flush(x), high), source)
        return first, whole - first

    left_high, left_low = parts(left, SRC_B_FULL, SRC_B_HIGH)
    right_high, right_low = parts(right, SRC_A_FULL, SRC_A_HIGH)
    phases = [(left_high, right_high), (left_high, right_low), (left_low, right_high), (left_low, right_low)]
    total = sum(np.matmul(*phases[phase]) for phase in _checked(numerics.fidelity))
    return quantise(overflowed(np.asarray(total)), numerics.dst_format)


def _block_product(pairs: list[tuple[np.ndarray, np.ndarray]], start: int, stop: int, dst_format: str) -> np.ndarray:
    """Sum of the pairs' products over depth start to stop, as Dst accumulates it."""
    wide = dst_format == "Float32"
    step = max(stop - start, 1) if wide else MVMUL_DEPTH
    parts = (
        np.matmul(a[..., k : min(k + step, stop)], b[..., k : min(k + step, stop), :])
        for k in range(start, max(stop, start + 1), step)
        for a, b in pairs
    )
    dst = next(parts)
    if wide:
        for part in parts:
            dst = dst + part
        return dst
    dst = quantise(dst, dst_format)
    for part in parts:
        dst = quantise(dst + part, dst_format)
    return dst


def integer_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Exact integer product modulo 2^32, by float64 products of 16-bit halves."""
    low_a, high_a = (left & 0xFFFF).astype(np.float64), (left.astype(np.int64) >> 16).astype(np.float64)
    low_b, high_b = (right & 0xFFFF).astype(np.float64), (right.astype(np.int64) >> 16).astype(np.float64)
    low = np.matmul(low_a, low_b).astype(np.int64)
    cross = (np.matmul(low_a, high_b) + np.matmul(high_a, low_b)).astype(np.int64)
    return (low + (cross << 16)).astype(np.int64)


@kernel("matmul", MatmulParams, unit="matrix", arity=2)
def matmul(images: Images, call: Call) -> np.ndarray:
    """Batched product of the last two dims, and perhaps an activation."""
    return activated(_product(images, call), params_of(call, MatmulParams).activation, call, packed=_is_alone(call))


@kernel("linear", MatmulParams, unit="matrix", arity=3)
def linear(images: Images, call: Call) -> np.ndarray:
    """The product and a bias per column; then perhaps an activation."""
    value = with_bias(_product(images[:2], call, has_bias=True), images[2], call)
    return activated(value, params_of(call, MatmulParams).activation, call, packed=_is_alone(call))


def _is_alone(call: Call) -> bool:
    """Whether the activation of a product is an operation of its own: ttnn fuses it where a program configuration says
    the blocks. Of the same width in Dst and in the result both have the same bits.
    """
    return not call.numerics.k_block or FORMATS[call.outputs[0].data_format].kind == "block"


def with_bias(value: np.ndarray, bias: np.ndarray, call: Call) -> np.ndarray:
    """A product and what is added to it: in exact order by the matrix unit, to what it reads of the product in L1."""
    if not call.arithmetic.exact_order or value.dtype.kind != "f":
        return value + bias
    numerics, between = call.numerics, FORMATS[call.outputs[0].data_format]
    depth = call.inputs[0].shape[-2 if params_of(call, MatmulParams).transpose_a else -1] if numerics.k_block else 0
    if depth > numerics.k_block * TILE:  # several blocks, whose sum is in L1 already
        between = FORMATS[numerics.intermediate]
    if between.kind == "block" and numerics.dst_format != "Float32":
        value = quantise(block_product(value), between)
    return addition_order.added(value, bias, call.numerics.dst_format)


def activated(value: np.ndarray, name: str, call: Call, *, packed: bool = False) -> np.ndarray:
    """Applies an elementwise kernel to values in Dst, or what is `packed` of them: in exact order the device's own one.

    Raises ValueError if it is not one of `ACTIVATIONS`.
    """
    if not name:
        return value
    if name not in ACTIVATIONS:
        raise ValueError(f"activation: expected {', '.join(ACTIVATIONS)}, got {name!r}")
    if not call.arithmetic.exact_order:
        return ACTIVATIONS[name](value)
    numerics = call.numerics
    if packed:
        own = call.outputs[0].data_format
        value = addition_order.in_dst(value, numerics.dst_format)
        value = quantise(block_product(value) if FORMATS[own].kind == "block" else value, own)
        numerics = replace(numerics, dst_format="Float32" if own == "Float32" else "Float16_b")
    result = (real_function(name, numerics.dst_format, numerics) or ACTIVATIONS[name])(value)
    return addition_order.in_dst(result, numerics.dst_format) if packed else result


def _product(images: Images, call: Call, *, has_bias: bool = False) -> np.ndarray:
    params = params_of(call, MatmulParams)
    left, right = images
    if params.transpose_a:  # an operation of its own, after which the numbers share exponents anew
        left, source = np.swapaxes(left, -1, -2), FORMATS[call.inputs[0].data_format]
        left = quantise(left, source) if call.arithmetic.exact_order and source.kind == "block" else left
    if params.transpose_b:
        right = np.swapaxes(right, -1, -2)
    return product_of(left, right, call, all_in_l1=has_bias)
