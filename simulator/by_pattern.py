"""Elementwise operations of large bfloat16 tensors that are held as their bits.

The kernel and the packer treat every element by itself. So an operation of one tensor is computed once for each of the
65,536 patterns, and then looked up; one of several is computed in parts, since for a large array the system's memory
costs more than the arithmetic. Both have the bits that the whole would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opscope.base import passes
from opscope.compiler.target.program import EltwiseParams, TensorDesc
from opscope.compiler.target.rare_values import once
from opscope.simulator.images import is_held, widened
from opscope.simulator.kernels.registry import Call, Images, Kernel

PATTERNS = 1 << 16
LEAST = 4 * PATTERNS
"""Elements of an operand from which on this is done: with fewer it would cost more than it saves."""
PART = 1 << 17
"""Elements that are computed together."""
LOOKED_UP = 1 << 15
"""Elements that are looked up together."""
NEIGHBOURS = frozenset({"rotary_embedding"})
"""Kernels with the parameters of elementwise ones that read an element's neighbours too."""

Packed = Callable[[np.ndarray, TensorDesc], np.ndarray]
"""Packs a result into the format of its tensor."""


def may_be_by_pattern(kernel: Kernel, call: Call) -> bool:
    """Whether a call is an elementwise one with a large operand."""
    return (
        kernel.params is EltwiseParams
        and kernel.unit != "move"
        and kernel.name not in NEIGHBOURS
        and call.arithmetic.random is None
        and any(math.prod(desc.shape) >= LEAST for desc in call.inputs)
    )


def by_pattern(kernel: Kernel, images: Images, call: Call, packed: Packed) -> np.ndarray | None:
    """The packed result of a call that `may_be_by_pattern`, if its large operands are bfloat16 held as their bits, and
    the others scalars; a bfloat16 is held as its bits again. Else None.
    """
    shape = call.outputs[0].shape
    scalars = [None if image.size >= LEAST and once(image).size > 1 else once(image) for image in images]
    large = [(i, d) for i, d, scalar in zip(images, call.inputs, scalars, strict=True) if scalar is None]
    if (
        not large
        or any(s is not None and s.size != 1 for s in scalars)
        or not all(is_held(i, d) and i.flags.c_contiguous and i.shape == shape for i, d in large)
    ):
        return None

    def computed(parts: list[np.ndarray]) -> np.ndarray:
        """The packed result of flat parts of the large operands, with all scalars."""
        left, size = iter(parts), parts[0].size
        operands = [next(left) if scalar is None else scalar.reshape(1) for scalar in scalars]
        descs = tuple(replace(desc, shape=x.shape) for desc, x in zip(call.inputs, operands, strict=True))
        wide = [widened(x) if is_held(x, desc) else x for x, desc in zip(operands, descs, strict=True)]
        flat = replace(call.outputs[0], shape=(size,))
        value = kernel.function(wide, replace(call, inputs=descs, outputs=(flat,)))
        return packed(np.asarray(value), flat)

    flat = [image.reshape(-1) for image, _ in large]
    if len(flat) > 1:
        pieces = [slice(start, start + PART) for start in range(0, flat[0].size, PART)]
        # The last part is as long as the others, so that a bfloat16 of every part is held.
        pieces[-1] = slice(max(flat[0].size - PART, 0), flat[0].size)
        first = computed([image[pieces[0]] for image in flat])
        result = np.empty(shape, first.dtype)  # an array of its own, no view: it is handed over uncopied
        out = result.reshape(-1)
        out[pieces[0]] = first
        for piece in pieces[1:]:
            out[piece] = computed([image[piece] for image in flat])
        return result
    table = computed([np.arange(PATTERNS, dtype=np.uint16)])
    if passes.compiled is not None:
        result = np.empty(shape, table.dtype)
        passes.compiled.look_up(table, flat[0], result)
        return result
    result, index = np.empty(shape, table.dtype), np.empty(LOOKED_UP, np.intp)
    out = result.reshape(-1)
    for start in range(0, out.size, LOOKED_UP):
        part = flat[0][start : start + LOOKED_UP]
        index[: part.size] = part
        # NumPy clips indices, which are all there, in half of the time that it takes to check them.
        table.take(index[: part.size], mode="clip", out=out[start : start + part.size])
    return result
