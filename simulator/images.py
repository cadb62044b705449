"""Converts between host arrays and device images, and packs results into their data formats.

An image is how the simulator holds a tensor: float32 for every float format, the integer itself for integers, uint8
0/1 for booleans. Its shape is the logical one; padding to tiles exists in sizes and times only.

A bfloat16 from the host stays as its 16 bits (`as_bits`) until a kernel computes with it: kernels that only pick
and order elements need no more, and of a table of megabytes they may need a few rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from opscope.base import passes
from opscope.compiler.target.formats import FORMATS, NumberFormat, default_format, host_dtype
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.target.rare_values import once, repeats
from opscope.compiler.target.rounding import block_product, host_rounded, quantise, sfpu_stored, to_halves
from opscope.simulator.arithmetic import PLAIN, Arithmetic

_Rounding = Callable[[np.ndarray], np.ndarray]

BF16 = host_dtype("bf16")
LARGE = 1 << 16
"""Elements from which on less to write and to read is worth steps of its own."""


def from_host(array: np.ndarray, desc: TensorDesc) -> np.ndarray:
    """Returns the image of a host array of the declared element type.

    Float bits are kept, denormals and NaN included.
    """
    fmt = FORMATS[desc.data_format]
    if fmt.kind == "host":
        return array.reshape(desc.shape)
    if fmt.is_float:
        if array.dtype == np.float32:
            image = array
        elif array.dtype == BF16:
            image = widened(np.ascontiguousarray(array).view(np.uint16))
        else:
            image = array.astype(np.float32)
        if _is_lossy(desc.element_type, desc.data_format):
            image = host_rounded(image, fmt)
        return image.reshape(desc.shape)
    return array.astype(fmt.image, copy=False).reshape(desc.shape)


def as_bits(array: np.ndarray, desc: TensorDesc) -> np.ndarray:
    """Returns what `from_host` does, but a bfloat16 that stays one as its bits."""
    if array.dtype == BF16 and desc.data_format == "Float16_b":
        return np.ascontiguousarray(array).view(np.uint16).reshape(desc.shape)
    return from_host(array, desc)


def is_held(image: np.ndarray, desc: TensorDesc) -> bool:
    """Whether an image is bfloat16's bits."""
    return image.dtype == np.uint16 and desc.data_format == "Float16_b"


def widened(halves: np.ndarray) -> np.ndarray:
    """Returns the image of bfloat16's bits."""
    core = np.ascontiguousarray(halves).reshape(halves.shape) if halves.size < LARGE else once(halves)
    if passes.compiled is not None and core.flags.c_contiguous:
        image = np.empty(core.shape, np.float32)
        passes.compiled.widen(core, image)
        return image if core.shape == halves.shape else np.broadcast_to(image, halves.shape)
    wide = core.astype(np.uint32)
    wide <<= np.uint32(16)  # in place: of a large array, a new one costs more than the shift
    return np.broadcast_to(wide.view(np.float32), halves.shape)


def to_host(image: np.ndarray, desc: TensorDesc, *, own: bool = False) -> np.ndarray:
    """Returns an image as a fresh host array of the declared element type; `own`: as itself, where that is one."""
    dtype = host_dtype(desc.element_type)
    own = own and image.flags.owndata and image.flags.writeable and image.flags.c_contiguous
    if is_held(image, desc):
        if dtype == BF16:
            return (image if own else image.copy(order="C")).view(dtype).reshape(desc.shape)
        image = widened(image)
    if dtype == BF16 and desc.data_format == "Float16_b":
        packed = np.empty(image.shape, np.uint16)
        # NumPy converts what it writes in pieces that stay in the cache.
        bits = np.ascontiguousarray(image).view(np.uint32).reshape(image.shape)  # a scalar stays one
        np.right_shift(bits, np.uint32(16), out=packed, casting="unsafe")
        return packed.view(dtype).reshape(desc.shape)
    return np.ascontiguousarray(image).astype(dtype, copy=not own).reshape(desc.shape)


def pack(value: np.ndarray, desc: TensorDesc, **how: Any) -> np.ndarray:
    """Returns the image of a kernel's result in its tensor's data format: `packer` says how."""
    return packer(desc, **how)(value)


def packer(
    desc: TensorDesc,
    *,
    moved: bool = False,
    dst_format: str = "Float32",
    rounds: bool = True,
    arithmetic: Arithmetic = PLAIN,
    halves: bool = False,
    as_blocks: bool = False,
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the function that makes images of kernels' results in a tensor's data format.

    `halves`: a bfloat16 may stay as its bits, which is done where it has `LARGE` elements.

    `moved`: the bits come from a tensor of the same format and stay as they are. `dst_format`: the format of the
    register that a computed float passes first; `rounds`: whether it is rounded on its way there, or cut by SFPSTORE;
    `as_blocks`: whether the packer reads 6 bits of fraction there. What the host makes, it rounds its own way. Integers
    wrap to the element type's own width; booleans are 0 or 1.
    """
    fmt = FORMATS[desc.data_format]
    if fmt.kind == "host":
        return np.asarray
    if not fmt.is_float:
        if desc.element_type == "i1":
            return lambda value: (np.asarray(value) != 0).astype(fmt.image)
        own = host_dtype(desc.element_type)
        return lambda value: np.asarray(value).astype(own, copy=False).astype(fmt.image, copy=False)
    if moved:
        return _as_floats
    if desc.buffer_type == "system_memory":
        return lambda value: host_rounded(_as_floats(value), fmt)
    rounded = _rounding(fmt, dst_format, rounds, arithmetic, as_blocks=as_blocks)
    is_random = arithmetic.random is not None
    may_repeat = fmt.kind == "float" and not is_random
    narrowed = _narrowing(fmt, dst_format, rounds) if halves and fmt.name == "Float16_b" and not is_random else None

    def packed(value: np.ndarray) -> np.ndarray:
        image = _as_floats(value)
        if image.size < LARGE:
            return rounded(image)
        large = narrowed or rounded
        if may_repeat and repeats(image):
            return np.broadcast_to(large(once(image)), image.shape)
        return large(image)

    return packed


def _as_floats(value: np.ndarray) -> np.ndarray:
    return np.asarray(value, dtype=np.float32)


def _rounding(
    fmt: NumberFormat, dst_format: str, rounds: bool, arithmetic: Arithmetic, *, as_blocks: bool = False
) -> _Rounding:
    """The way of a computed float into a format: through Dst, perhaps, and the packer."""
    random = arithmetic.random
    if fmt.name == dst_format and not rounds and random is None and fmt.name != "Float32":
        return lambda image: quantise(image, fmt, "truncate")  # the store and the packer in one step
    if fmt.name == "Float32":
        last = arithmetic.result
    else:
        mode = "away" if random is None else "stochastic"
        last = functools.partial(quantise, number_format=fmt, mode=mode, random=random)
    steps = [step for step in (_storing(fmt, dst_format, rounds), block_product if as_blocks else None, last) if step]
    return last if len(steps) == 1 else lambda image: functools.reduce(lambda x, step: step(x), steps, image)


def _narrowing(fmt: NumberFormat, dst_format: str, rounds: bool) -> _Rounding:
    """The same into the bits of a bfloat16."""
    if dst_format == fmt.name and not rounds:
        return lambda image: to_halves(image, "truncate")
    first = _storing(fmt, dst_format, rounds)
    return to_halves if first is None else lambda image: to_halves(first(image))


def _storing(fmt: NumberFormat, dst_format: str, rounds: bool) -> _Rounding | None:
    """How a value gets into a Dst of 16 bits; None where the packer does the same, or Dst has 32."""
    if dst_format not in ("Float16", "Float16_b") or (rounds and fmt.name == dst_format):
        return None
    return (
        functools.partial(quantise, number_format=dst_format)
        if rounds
        else functools.partial(sfpu_stored, dst_format=dst_format)
    )


@functools.cache
def _is_lossy(element_type: str, data_format: str) -> bool:
    """Whether an element type does not fit a data format."""
    own = default_format(element_type)
    return own is None or not FORMATS[data_format].holds(own)
