"""Kernels that make a tensor from their parameters: `full`, `constant`, `arange`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.program import ArangeParams, ConstantParams, FullParams
from opscope.simulator.images import from_host
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of


def _decode(data: bytes, shape: tuple[int, ...], call: Call) -> np.ndarray:
    """Image of `data`, elements of the result's element type in their own bytes."""
    dtype = host_dtype(call.outputs[0].element_type)
    storage = np.dtype(np.uint8) if dtype == np.bool_ else dtype
    return np.frombuffer(data, storage).reshape(shape).astype(dtype, copy=False)


@kernel("full", FullParams, unit="move", arity=0)
def full(images: Images, call: Call) -> np.ndarray:
    """One value everywhere."""
    params, desc = params_of(call, FullParams), call.outputs[0]
    single = (1,) * len(params.shape)
    image = from_host(_decode(params.value, single, call), replace(desc, shape=single))
    return np.broadcast_to(image, params.shape)


@kernel("constant", ConstantParams, unit="move", arity=0)
def constant(images: Images, call: Call) -> np.ndarray:
    """All elements given."""
    params = params_of(call, ConstantParams)
    return from_host(_decode(params.data, params.shape, call), call.outputs[0])


@kernel("arange", ArangeParams, unit="move", arity=0)
def arange(images: Images, call: Call) -> np.ndarray:
    """start + step * index along one dim; the core that writes the tiles counts, Dst is not needed."""
    params = params_of(call, ArangeParams)
    line = params.start + params.step * np.arange(params.shape[params.dim], dtype=np.int64)
    shape = [-1 if d == params.dim else 1 for d in range(len(params.shape))]
    desc = call.outputs[0]
    values = line.reshape(shape).astype(host_dtype(desc.element_type))
    return from_host(np.broadcast_to(values, params.shape), desc)
