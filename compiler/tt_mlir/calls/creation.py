"""Ops that make a tensor from their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.program import ArangeParams, ConstantParams, FullParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits


def _element(value: Any, element: str) -> bytes:
    """The bytes of a value in an element type; integers wrap to its width."""
    dtype = host_dtype(element)
    if dtype.kind in "iu":
        return np.asarray(int(value) & 0xFFFFFFFF, np.uint32).astype(dtype).tobytes()
    return np.asarray(value, np.float64).astype(dtype).tobytes()


def _filled(emit: Emit, value: Any) -> None:
    desc = emit.desc(emit.results[0])
    shape = emit.attributes["shape"]
    emit.only(shape == desc.shape, f"expected the result's shape, got {shape}")
    emit.call("full", (), emit.results, FullParams(desc.shape, _element(value, desc.element_type)))


@emits("full")
def full(emit: Emit) -> None:
    """One value everywhere."""
    _filled(emit, emit.attributes["fill_value"])


@emits("zeros", "ones")
def zeros(emit: Emit) -> None:
    """0 or 1 everywhere."""
    _filled(emit, int(emit.name == "ttnn.ones"))


@emits("constant")
def constant(emit: Emit) -> None:
    """All elements."""
    desc, value = emit.desc(emit.results[0]), emit.attributes["value"]
    emit.only(value.shape == desc.shape, f"expected the result's shape, got {value.shape}")
    dtype = host_dtype(desc.element_type)
    emit.only(value.dtype == dtype, f"expected elements of {desc.element_type}, got those of {value.dtype}")
    emit.call("constant", (), emit.results, ConstantParams(desc.shape, np.ascontiguousarray(value).tobytes()))


@emits("arange")
def arange(emit: Emit) -> None:
    """Numbers from start to before end."""
    start, end, step = (emit.attributes[name] for name in ("start", "end", "step"))
    shape = emit.desc(emit.results[0]).shape
    emit.only(
        step != 0 and shape == (len(range(start, end, step)),), f"expected {start} to {end} by {step}, got {shape}"
    )
    emit.call("arange", (), emit.results, ArangeParams(shape, 0, start, step))
