"""Kernels that move a tensor or change its layout, conversions, and reinterpretation of bits."""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.formats import FORMATS, INDEX_LIMIT, host_dtype
from opscope.compiler.target.program import EltwiseParams, LayoutParams, Operation, Program
from opscope.compiler.target.rare_values import has_nan
from opscope.compiler.target.rounding import bits
from opscope.simulator.images import from_host, to_host
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.real.conversions import KNOWN, converted
from opscope.simulator.kernels.registry import PASS, Call, Images, kernel, params_of


def _same(images: Images, call: Call) -> np.ndarray:
    """The tensor as it is: the result's description says where and in which format it goes. 64-bit integers, which
    only the host has, saturate on the way.
    """
    source, target = call.inputs[0], call.outputs[0]
    if source.data_format in ("Int64", "UInt64") and target.data_format != source.data_format:
        dtype = host_dtype(target.element_type)
        return np.clip(images[0], 0 if dtype.kind == "u" else -INDEX_LIMIT, INDEX_LIMIT).astype(dtype)
    return images[0]


PLACING = ("to_layout", "to_device", "from_device", "to_memory_config")
"""Kernels whose result is their operand, in another place or layout."""
for _name in PLACING:
    kernel(_name, LayoutParams, unit="move", picks=True)(_same)


def only_places(op: Operation, program: Program) -> bool:
    """Whether an operation frees its operand, or has its image as result."""
    if op.kernel == "deallocate":
        return True
    if op.kernel not in PLACING or len(op.inputs) != 1 or len(op.outputs) != 1:
        return False
    source, target = program.tensors[op.inputs[0]], program.tensors[op.outputs[0]]
    return (source.shape, source.data_format, source.element_type) == (
        target.shape,
        target.data_format,
        target.element_type,
    )


@kernel("split_words", LayoutParams, unit="move")
def split_words(images: Images, call: Call) -> np.ndarray:
    """64-bit integers as pairs of words, the low one first: the host's own bytes."""
    return np.ascontiguousarray(images[0]).view(np.uint32).reshape(call.outputs[0].shape)


@kernel("join_words", LayoutParams, unit="move")
def join_words(images: Images, call: Call) -> np.ndarray:
    """Pairs of words as 64-bit integers."""
    words = np.ascontiguousarray(images[0], np.uint32)
    return words.view(host_dtype(call.outputs[0].element_type)).reshape(call.outputs[0].shape)


@kernel("deallocate", LayoutParams, unit="move", picks=True)
def deallocate(images: Images, call: Call) -> Images:
    """Frees its operand's buffer (the device does); has no result."""
    return []


@kernel("typecast", EltwiseParams)
def typecast(images: Images, call: Call) -> np.ndarray:
    """To the result's element type: floats to integers towards zero, saturating, NaN to 0; to i1: whether not 0. In
    exact order as ttnn's own kernel does it."""
    (x,), target = operands(images, call), call.outputs[0]
    dtype = host_dtype(target.element_type)
    source, own = call.inputs[0].data_format, target.data_format
    if (
        call.arithmetic.exact_order
        and {source, own} <= KNOWN
        and "i1" not in (target.element_type, call.inputs[0].element_type)
    ):
        value = converted(images[0] if x.dtype.kind == "f" else x, source, own)
        return value if value.dtype.kind == "f" else value.astype(dtype)
    if FORMATS[target.data_format].is_float or target.element_type == "i1" or x.dtype.kind != "f":
        return x.astype(np.float32, copy=False) if FORMATS[target.data_format].is_float else x
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    wide = np.trunc(x.astype(np.float64))
    if has_nan(bits(x)):
        wide = np.where(np.isnan(wide), 0.0, wide)
    return np.clip(wide, low, high).astype(dtype)


@kernel("bitcast_convert", EltwiseParams, unit="move")
def bitcast_convert(images: Images, call: Call) -> np.ndarray:
    """The same bytes as the result's element type; a last dim comes or goes where widths differ."""
    source, target = call.inputs[0], call.outputs[0]
    data = to_host(images[0], source)
    dtype = host_dtype(target.element_type)
    return from_host(np.frombuffer(data.tobytes(), dtype).reshape(target.shape), target)


@kernel("reduce_precision", EltwiseParams, cycles=PASS)
def reduce_precision(images: Images, call: Call) -> np.ndarray:
    """float32 rounded (ties to even) to scalars (exponent bits, mantissa bits), as StableHLO defines it."""
    exponent, mantissa = (int(s) for s in params_of(call, EltwiseParams).scalars)
    x = images[0]
    pattern = bits(x).copy()
    nan = np.isnan(x)
    if mantissa < 23:
        drop = 23 - mantissa
        last = (pattern >> np.uint32(drop)) & np.uint32(1)
        pattern = (pattern + np.uint32((1 << (drop - 1)) - 1) + last) & np.uint32((0xFFFFFFFF << drop) & 0xFFFFFFFF)
    if exponent < 8:
        bias = (1 << (exponent - 1)) - 1
        field = (pattern >> np.uint32(23)) & np.uint32(0xFF)
        sign = pattern & np.uint32(0x80000000)
        pattern = np.where(field > 127 + bias, sign | np.uint32(0x7F800000), pattern)
        pattern = np.where(field <= 127 - bias, sign, pattern)
    return np.where(nan, x if mantissa else np.float32(np.inf), pattern.view(np.float32))
