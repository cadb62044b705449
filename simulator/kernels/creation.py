"""Kernels that make a tensor from their parameters: `full`, `constant`, `arange`."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.program import ArangeParams, ConstantParams, FullParams, TensorDesc
from opscope.simulator.images import from_host
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of

FEW = 1 << 12
"""Elements up to which a repeated value is written out."""


def _decode(data: bytes, shape: tuple[int, ...], desc: TensorDesc) -> np.ndarray:
    """Image of `data`, elements of the result's element type in their own bytes."""
    dtype = host_dtype(desc.element_type)
    storage = np.dtype(np.uint8) if dtype == np.bool_ else dtype
    return np.frombuffer(data, storage).reshape(shape).astype(dtype, copy=False)


@kernel("full", FullParams, unit="move", arity=0)
def full(images: Images, call: Call) -> np.ndarray:
    """One value everywhere."""
    params = params_of(call, FullParams)
    return _repeated(params.value, params.shape, call.outputs[0])


@functools.lru_cache(maxsize=1024)
def _repeated(value: bytes, shape: tuple[int, ...], desc: TensorDesc) -> np.ndarray:
    """One value, which nobody can write to: kept, since to make it takes longer than to add it. A few elements lie side
    by side, as the compiled passes take them; of many there is a view."""
    single = replace(desc, shape=(1,) * len(shape))
    view = np.broadcast_to(from_host(_decode(value, single.shape, single), single), shape)
    if view.size > FEW:
        return view
    few = np.ascontiguousarray(view).reshape(shape)
    few.flags.writeable = False
    return few


@kernel("constant", ConstantParams, unit="move", arity=0)
def constant(images: Images, call: Call) -> np.ndarray:
    """All elements given."""
    params = params_of(call, ConstantParams)
    desc = call.outputs[0]
    return from_host(_decode(params.data, params.shape, desc), desc)


@kernel("arange", ArangeParams, unit="move", arity=0)
def arange(images: Images, call: Call) -> np.ndarray:
    """start + step * index along one dim; the core that writes the tiles counts, Dst is not needed."""
    params = params_of(call, ArangeParams)
    line = params.start + params.step * np.arange(params.shape[params.dim], dtype=np.int64)
    shape = [-1 if d == params.dim else 1 for d in range(len(params.shape))]
    desc = call.outputs[0]
    values = line.reshape(shape).astype(host_dtype(desc.element_type))
    return from_host(np.broadcast_to(values, params.shape), desc)
