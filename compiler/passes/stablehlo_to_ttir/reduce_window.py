"""Window reductions: NHWC pooling if they are over at most two dims, otherwise a kernel that applies their body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.body import is_identity, recognise
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import lowered, read_around

POOLS = {"max": "max_pool2d", "min": "min_pool2d", "sum": "sum_pool2d"}


@lowers("stablehlo.reduce_window")
def reduce_window(e: Emit) -> SSAValue | list[SSAValue]:
    """Emits pooling if the device has it, else a kernel that applies the body to every window."""
    return _pool(e) or _by_body(e)


def _by_body(e: Emit) -> list[SSAValue]:
    assert e.functions is not None
    rank = len(shape_of(e.operands[0]))
    outside = read_around(e, e.op.regions)
    return e.emit_all(
        "reduce_window_body",
        [*e.operands, *lowered(e, outside)],
        e.result_types,
        window=e.ints("window_dimensions"),
        stride=e.ints("window_strides", [1] * rank),
        padding=e.ints("padding", [0] * (2 * rank)),
        dilation=e.ints("window_dilations", [1] * rank),
        base_dilation=e.ints("base_dilations", [1] * rank),
        programs=[e.functions.scalar(e, e.op.regions[0], outside)],
    )


@dataclass(frozen=True)
class Window:
    """The windows of a `reduce_window`, per dim."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    base: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    def wider(self, edges: Sequence[tuple[int, int]]) -> Window:
        """Returns these windows over an operand that has lost a pad of these edges."""
        padding = tuple((a + low, b + high) for (a, b), (low, high) in zip(self.padding, edges, strict=True))
        return replace(self, padding=padding)


def window_of(e: Emit) -> Window:
    """Reads the op's attributes."""
    rank = len(shape_of(e.operands[0]))
    ones = [1] * rank
    flat = e.ints("padding", [0] * (2 * rank))
    return Window(
        e.ints("window_dimensions"),
        e.ints("window_strides", ones),
        e.ints("window_dilations", ones),
        e.ints("base_dilations", ones),
        tuple((flat[2 * i], flat[2 * i + 1]) for i in range(rank)),
    )


@dataclass(frozen=True)
class Pooled:
    """A 2-D pooling of a value that was moved to NHWC, and the way back."""

    e: Emit
    value: SSAValue
    order: tuple[int, ...]

    @property
    def type(self) -> Any:
        """The type of the NHWC result."""
        return self.value.type

    def result(self, value: SSAValue | None = None) -> SSAValue:
        """Moves the pooling's result, or what was made of it, to where the op's result has its dims."""
        moved = self.e.reshape(value or self.value, [self.e.result_shape[i] for i in self.order])
        return self.e.permute(moved, [self.order.index(i) for i in range(len(self.order))])


def pooled(e: Emit, value: SSAValue, window: Window, name: str, **attrs: Any) -> Pooled | None:
    """Maps window dims to H and W, the last other dim to C and the rest to N; None if there are more than two."""
    element: Any = e.result_type.element_type
    shape = shape_of(value)
    rank = len(shape)
    moving = [i for i in range(rank) if window.size[i] != 1 or window.stride[i] != 1 or window.padding[i] != (0, 0)]
    if len(moving) > 2 or any(n != 1 for n in window.base):
        return None
    others = [i for i in range(rank) if i not in moving]
    outer, channel = others[:-1], others[-1:]
    order = (*outer, *moving, *channel)
    extra = [1] * (2 - len(moving))

    def numbers(per_dim: tuple[int, ...]) -> list[int]:
        return [*extra, *(per_dim[i] for i in moving)]

    out = [e.result_shape[i] for i in moving]
    n, c = prod(shape[i] for i in outer), prod(shape[i] for i in channel)
    value = e.permute(value, order)
    value = e.reshape(value, [n, *extra, *(shape[i] for i in moving), c])
    value = e.emit(
        name,
        [value],
        TensorType(element, [n, *extra, *out, c]),
        kernel=numbers(window.size),
        stride=numbers(window.stride),
        dilation=numbers(window.dilation),
        padding=[*[0] * (2 * len(extra)), *(edge for i in moving for edge in window.padding[i])],
        ceil_mode=False,
        **attrs,
    )
    return Pooled(e, value, order)


def _pool(e: Emit) -> SSAValue | None:
    """Emits a pooling that the device has; None if the op is none."""
    element: Any = e.result_type.element_type
    fold = recognise(e.op.regions[0], element) if len(e.operands) == 2 else None
    value, start = e.operands[0], e.operands[-1]
    if fold is None or fold.kernel not in POOLS:
        return None
    identity = is_identity(fold, start, element)
    # A window sum would add a start value other than 0 once per padded place.
    if fold.kernel == "sum" and not identity:
        return None
    pool = pooled(e, value, window_of(e), POOLS[fold.kernel])
    if pool is None:
        return None
    value = pool.result()
    return value if identity else e.emit(fold.combine, [value, start], e.result_type)
