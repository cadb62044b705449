"""The registry of decompositions, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit

Decomposition = Callable[[Emit, dict[str, Any]], "SSAValue | Sequence[SSAValue] | None"]
PATTERNS: dict[str, Decomposition] = {}
"""ttir op -> (emitter in its place, its attributes) -> the values that replace its results; None leaves it."""


def decomposes(*names: str) -> Callable[[Decomposition], Decomposition]:
    """Decorator for a function that rewrites these ops."""

    def note(pattern: Decomposition) -> Decomposition:
        PATTERNS.update(dict.fromkeys(names, pattern))
        return pattern

    return note


def element_of(value: SSAValue) -> Any:
    """Returns the element type of a tensor value."""
    kind: Any = value.type
    return kind.element_type


def number(e: Emit, like: SSAValue, value: float) -> SSAValue:
    """Returns a constant that broadcasts against `like`."""
    return e.full([1] * len(shape_of(like)), element_of(like), value)


def binary(e: Emit, name: str, a: SSAValue, b: SSAValue | float) -> SSAValue:
    """Emits an elementwise op of `a` and a value or constant that broadcasts to the shape of `a`."""
    return e.emit(name, [a, b if isinstance(b, SSAValue) else number(e, a, b)], a.type)


def unary(e: Emit, name: str, a: SSAValue, **attrs: Any) -> SSAValue:
    """Emits an elementwise op of one operand."""
    return e.emit(name, [a], a.type, **attrs)


def along(rank: int, dim: int) -> int:
    """Returns a dim that may count from the end."""
    return dim % max(rank, 1)


def steps(e: Emit, element: Any, shape: Sequence[int], dim: int, start: int = 0) -> SSAValue:
    """Returns start, start + 1, ... along `dim` of `shape`."""
    kind = TensorType(element, list(shape))
    return e.emit("arange", [], kind, start=start, end=start + shape[dim], step=1, arange_dimension=dim)


def sliced(e: Emit, value: SSAValue, dim: int, begin: int, end: int, step: int = 1) -> SSAValue:
    """Returns a slice along one dim; the value itself if nothing is cut off."""
    shape = list(shape_of(value))
    if (begin, end, step) == (0, shape[dim], 1):
        return value
    begins, ends, stride = [0] * len(shape), list(shape), [1] * len(shape)
    begins[dim], ends[dim], stride[dim] = begin, end, step
    shape[dim] = max(0, -(-(end - begin) // step))
    return e.emit("slice_static", [value], e.like(value, tuple(shape)), begins=begins, ends=ends, step=stride)
