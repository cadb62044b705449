"""Sums, products, quotients and the larger of two of large float tensors, computed without a look at each operand.

The unit flushes denormals and -0 of its operands and of its result, and treats Inf and NaN its own way. Each is rare,
and each shows in the result or in a sum of squares, which costs a fraction of the looks. A part in which none shows is
what NumPy makes of it; a tensor with one is left to the kernel and the packer. Bits are the same either way
(tests/test_large.py).

A bfloat16 that is held as its bits is computed in parts. Two neighbours make one word of 32 bits, so the even ones of a
part and the odd ones are widened, and narrowed again, in the processor's own width.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from opscope.base import passes
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.target.rare_values import has_tiny, once
from opscope.simulator.images import is_held, widened
from opscope.simulator.kernels.eltwise import SMALL
from opscope.simulator.kernels.registry import Call, Images, Kernel

FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "divide": np.divide,
}
LEAST = 1 << 16
"""Elements from which on this is done."""
PART = 1 << 16
"""Elements that are computed together, few enough for a cache: even, since bfloat16's go in pairs."""
SMALL_DIVISOR = 102 << 23
"""Bit pattern of 2^-25: a denormal divided by it or more is below 2^-100."""
BOUND = 2.0**50
"""A sum of squares below it has no value from 2^26 on, so that a denormal times any of them is below 2^-100."""
HIGH, HALF, SIXTEEN = np.uint32(0xFFFF0000), np.uint32(0x8000), np.uint32(16)


def may_be_plain(kernel: Kernel, call: Call, dst_format: str) -> bool:
    """Whether a call is one of `FUNCTIONS` on large tensors of one format and scalars, and asks for nothing else.

    `dst_format` is the packer's (see `opscope.simulator.images.pack`).
    """
    target = call.outputs[0] if call.outputs else None
    if target is None or kernel.name not in FUNCTIONS or math.prod(target.shape) < LEAST:
        return False
    if target.data_format == "Float16_b" and kernel.name == "multiply" and dst_format == "Float32":
        return False  # rounded away from 0 by the packer, not to the nearest even
    return _is_usual(call, dst_format)


def plain(kernel: Kernel, images: Images, call: Call) -> np.ndarray | None:
    """The packed result of a call that `may_be_plain`; None where its values want the kernel's care."""
    function, target = FUNCTIONS[kernel.name], call.outputs[0]
    scalars = [once(image) if once(image).size == 1 else None for image in images]
    large = [image for image, scalar in zip(images, scalars, strict=True) if scalar is None]
    half = target.data_format == "Float16_b"
    if not large or not all(_is_whole(image, target, half) for image in large):
        return None
    fixed = [None if s is None else _number(s, d) for s, d in zip(scalars, call.inputs, strict=True)]
    if passes.compiled is not None:
        out = np.empty(target.shape, np.uint16 if half else np.float32)
        return out if passes.compiled.combine(kernel.name, *_all(large, fixed), out) else None
    if any(s is not None and has_tiny(s.view(np.uint32)) for s in fixed):
        return None
    flat = [image.reshape(-1) for image in large]
    # NumPy's loop for an array and one number may take three times as long as that for two arrays.
    filled = [None if s is None else np.full(PART, s[0]) for s in fixed]
    if half:
        return _by_pairs(function, flat, filled, target)
    return _in_parts(function, flat, filled, target)


def _is_usual(call: Call, dst_format: str) -> bool:
    """Whether a call asks for nothing but the sum or product itself, in one format."""
    target, arithmetic = call.outputs[0], call.arithmetic
    dst = {"Float32": ("Float32",), "Float16_b": ("Float16_b", "Float32")}.get(target.data_format, ())
    return (
        dst_format in dst
        and target.buffer_type != "system_memory"
        and all(desc.data_format == target.data_format for desc in call.inputs)
        and call.numerics.fidelity == "HiFi4"
        and not call.numerics.math_approx
        and not arithmetic.exact_order  # the device's own quotients, and order of NaN, are the kernels'
        and arithmetic.random is None
        and not arithmetic.keeps_sign_of_zero
    )


def _is_whole(image: np.ndarray, target: TensorDesc, half: bool) -> bool:
    """Whether an operand has the result's shape and lies in one piece, a bfloat16 as its bits."""
    dtype_fits = is_held(image, target) if half else image.dtype == np.float32
    return dtype_fits and image.shape == target.shape and image.flags.c_contiguous


def _number(scalar: np.ndarray, desc: TensorDesc) -> np.ndarray:
    return np.ascontiguousarray(widened(scalar) if is_held(scalar, desc) else scalar, np.float32).reshape(1)


def _all(parts: list[np.ndarray], fixed: list[np.ndarray | None]) -> list[np.ndarray]:
    """Operands in their order: the parts, with the scalars between them."""
    left = iter(parts)
    return [next(left) if scalar is None else scalar for scalar in fixed]


def _computed(function: Callable[..., np.ndarray], operands: list[np.ndarray], out: np.ndarray) -> bool:
    """Computes `out`; False where an operand is too large for a denormal to show, or a result is no finite number."""
    if function is np.multiply:
        if not all(float(np.dot(x, x)) < BOUND for x in operands):
            return False
        function(*operands, out=out)
        return True
    if function is np.divide and has_tiny(operands[1].view(np.uint32), SMALL_DIVISOR):
        return False
    function(*operands, out=out)
    return math.isfinite(float(np.dot(out, out)))


def _shows_denormal(pattern: np.ndarray, small: int) -> bool:
    """Whether a result may come of a denormal; -0, as of 0 times a negative number, becomes 0 as everywhere."""
    if not has_tiny(pattern, small):
        return False
    pattern *= pattern != pattern.dtype.type(1 << (8 * pattern.itemsize - 1))
    return has_tiny(pattern, small)


def _in_parts(
    function: Callable[..., np.ndarray], flat: list[np.ndarray], fixed: list[np.ndarray | None], target: TensorDesc
) -> np.ndarray | None:
    """`_computed` of float32 in parts."""
    out = np.empty(target.shape, np.float32)
    whole = out.reshape(-1)
    for start in _starts(whole.size):
        part = whole[start : start + PART]
        operands = _all([x[start : start + PART] for x in flat], fixed)
        if not _computed(function, operands, part) or _shows_denormal(part.view(np.uint32), SMALL):
            return None
    return out


def _starts(size: int) -> tuple[int, ...]:
    """Where parts begin; the last one, as long as the others, may overlap the one before."""
    return (*range(0, size - PART, PART), size - PART)


def _by_pairs(
    function: Callable[..., np.ndarray], flat: list[np.ndarray], fixed: list[np.ndarray | None], target: TensorDesc
) -> np.ndarray | None:
    """`_computed` of bfloat16's bits in parts, as bfloat16's bits: ties away; the larger of two as it is."""
    out = np.empty(target.shape, np.uint16)
    whole, middle = out.reshape(-1), PART // 2
    wide = [np.empty(PART, np.uint32) for _ in flat]
    result = np.empty(PART, np.float32)
    operands = _all([part.view(np.float32) for part in wide], fixed)
    pattern = result.view(np.uint32)
    even, odd = pattern[:middle], pattern[middle:]
    for start in _starts(whole.size):
        for words, half in zip(wide, flat, strict=True):
            pairs = half[start : start + PART].view(np.uint32)
            np.left_shift(pairs, SIXTEEN, out=words[:middle])
            np.bitwise_and(pairs, HIGH, out=words[middle:])
        if not _computed(function, operands, result):
            return None
        if function is np.multiply:  # to the nearest even
            pattern -= ~pattern >> SIXTEEN & np.uint32(1)
        if function is not np.maximum:
            np.add(pattern, HALF, out=pattern)
        np.right_shift(even, SIXTEEN, out=even)
        np.bitwise_and(odd, HIGH, out=odd)
        np.bitwise_or(even, odd, out=whole[start : start + PART].view(np.uint32))
        if _shows_denormal(whole[start : start + PART], SMALL >> 16):
            return None
    return out
