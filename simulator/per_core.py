"""Runs a kernel core by core: the result is cut into rectangles, one per core, and the same kernel computes each.

This shows that results do not depend on placement; programs normally run whole. A kernel whose result at one place
needs the whole operand in another order (a reshape, a gather) is not cut.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from opscope.compiler.target.program import (
    Conv2dParams,
    EltwiseParams,
    MatmulParams,
    Pool2dParams,
    ReduceParams,
    TensorDesc,
)
from opscope.compiler.target.system_desc import Profile
from opscope.simulator.kernels.registry import Call, Images, Kernel

Rectangle = tuple[slice, ...]


def rectangles(shape: tuple[int, ...], dims: tuple[int, int], grid: tuple[int, int]) -> list[Rectangle]:
    """`shape` cut along two of its dims into at most grid rows x columns parts, at multiples of 32."""
    cuts: list[list[slice]] = [[slice(0, size)] for size in shape]
    for dim, cores in zip(dims, grid, strict=True):
        size = shape[dim]
        step = max(-(-size // cores) + 31, 32) // 32 * 32
        cuts[dim] = [slice(start, min(start + step, size)) for start in range(0, size, step)] or [slice(0, 0)]
    return list(itertools.product(*cuts))


def operand_parts(call: Call, out: Rectangle) -> list[Rectangle] | None:
    """Returns the part of each operand that a core needs to compute `out`; None if the kernel cannot be cut."""
    shape = call.outputs[0].shape
    match call.params:
        case EltwiseParams():
            if any(len(d.shape) > len(shape) for d in call.inputs):
                return None
            return [_broadcast_part(d, out) for d in call.inputs]
        case MatmulParams(transpose_a=ta, transpose_b=tb):
            left, right = call.inputs
            rows, cols, every = out[-2], out[-1], slice(None)
            return [
                (
                    *_broadcast_part(dataclasses.replace(left, shape=left.shape[:-2]), out[:-2]),
                    *_order(rows, every, ta),
                ),
                (
                    *_broadcast_part(dataclasses.replace(right, shape=right.shape[:-2]), out[:-2]),
                    *_order(every, cols, tb),
                ),
            ]
        case Conv2dParams(groups=1, batch_groups=1):
            whole, weight_and_bias = slice(None), call.inputs[1:]
            columns = [(*(whole,) * (len(desc.shape) - 1), out[3]) for desc in weight_and_bias]
            return [(out[0], whole, whole, whole), *columns]
        case Pool2dParams():
            return [(out[0], slice(None), slice(None), out[3])]
        case ReduceParams(dims=dims, keep_dim=keep):
            rank = len(call.inputs[0].shape)
            reduced = {d % rank for d in dims}
            left_over = iter(out)
            return [tuple(_reduced_part(d in reduced, keep, left_over) for d in range(rank))]
    return None


def _order(rows: slice, cols: slice, transposed: bool) -> Rectangle:
    return (cols, rows) if transposed else (rows, cols)


def _reduced_part(reduced: bool, keep: bool, out: Iterator[slice]) -> slice:
    if reduced:
        if keep:
            next(out)
        return slice(None)
    return next(out)


def _broadcast_part(desc: TensorDesc, out: Rectangle) -> Rectangle:
    """The part of an operand that NumPy's broadcasting lines up with `out`."""
    own = out[len(out) - len(desc.shape) :]
    return tuple(slice(None) if size == 1 else part for size, part in zip(desc.shape, own, strict=True))


def cut_dims(call: Call) -> tuple[int, int] | None:
    """Returns the two dims of the result that are distributed over rows and columns of cores."""
    rank = len(call.outputs[0].shape)
    if isinstance(call.params, Conv2dParams | Pool2dParams):
        return 0, 3
    return (rank - 2, rank - 1) if rank >= 2 else None


def run_per_core(kernel: Kernel, images: Images, call: Call, profile: Profile) -> np.ndarray | Images:
    """Returns the kernel's result, computed core by core if it can be cut, else at once."""
    dims = cut_dims(call) if len(call.outputs) == 1 else None
    if dims is None:
        return kernel.function(images, call)
    result: np.ndarray | None = None
    for out in rectangles(call.outputs[0].shape, dims, profile.grid):
        parts = operand_parts(call, out)
        if parts is None:
            return kernel.function(images, call)
        pieces = [image[part] for image, part in zip(images, parts, strict=True)]
        descs = [dataclasses.replace(d, shape=p.shape) for d, p in zip(call.inputs, pieces, strict=True)]
        shape = tuple(part.stop - part.start for part in out)
        own = dataclasses.replace(call.outputs[0], shape=shape)
        value = np.asarray(kernel.function(pieces, dataclasses.replace(call, inputs=tuple(descs), outputs=(own,))))
        if result is None:
            result = np.empty(call.outputs[0].shape, value.dtype)
        result[out] = value
    assert result is not None
    return result
