"""Shape rules of device ops: they compute the result's shape from operands and attributes."""

from __future__ import annotations

from typing import Any

from xdsl.utils.exceptions import VerifyException

Shape = tuple[int, ...]


def shape_of(value: Any) -> Shape:
    """Static shape of an SSA value of tensor type."""
    return tuple(value.type.get_shape())


def broadcast(*shapes: Shape) -> Shape | None:
    """NumPy's broadcast of `shapes`; None if they do not fit."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for i in range(rank):
        sizes = {s[i - rank + len(s)] for s in shapes if i - rank + len(s) >= 0} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def eltwise(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """Result of an elementwise op. An impossible broadcast gives (-1,), which no result has."""
    shape = broadcast(*(shape_of(v) for v in op.operands))
    return (-1,) if shape is None else shape


def declared(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """The result's shape, which the op has as an attribute."""
    return tuple(attrs["shape"])


def permuted(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """Result dim i is input dim permutation[i]."""
    shape = shape_of(op.operands[0])
    return tuple(shape[i] for i in attrs["permutation"])


def reduced(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """`dim_arg` dropped, or kept with size 1."""
    dims, keep = set(attrs["dim_arg"]), attrs["keep_dim"]
    shape = shape_of(op.operands[0])
    return tuple(1 if i in dims else n for i, n in enumerate(shape) if keep or i not in dims)


def product(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """Matrix product of the last two dims, leading dims broadcast."""
    a, b = (shape_of(v) for v in op.operands[:2])
    if attrs["transpose_a"]:
        a = (*a[:-2], a[-1], a[-2])
    if attrs["transpose_b"]:
        b = (*b[:-2], b[-1], b[-2])
    batch = broadcast(a[:-2], b[:-2])
    if batch is None or a[-1] != b[-2]:
        return (-1,)
    return (*batch, a[-2], b[-1])


def window(size: int, kernel: int, stride: int, low: int, high: int, dilation: int, base: int = 1) -> int:
    """Number of positions of a window (StableHLO's `num_windows`)."""
    padded = low + (0 if size == 0 else (size - 1) * base + 1) + high
    extent = (kernel - 1) * dilation + 1
    return 0 if padded < extent else (padded - extent) // stride + 1


def convolved(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """Result (channels last) of a convolution of an input with channels last and a spatial, I, O weight.

    tt-mlir's form, whose dims lie anywhere, is checked once it is decomposed.
    """
    if "channel_dim" in attrs:
        return None
    (n, *size, _), (*kernel, _, o) = shape_of(op.operands[0]), shape_of(op.operands[1])
    low, high = attrs["padding"][0::2], attrs["padding"][1::2]
    base = attrs.get("input_dilation", (1,) * len(size))
    spatial = zip(size, kernel, attrs["stride"], low, high, attrs["dilation"], base, strict=True)
    return (n // attrs.get("batch_groups", 1), *(window(*dim) for dim in spatial), o)


def pooled(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """NHWC result of a 2-D window reduction, whose mean is over padding too."""
    if not attrs.get("count_include_pad", True) and any(attrs["padding"]):
        raise VerifyException(f"{op.name}: expected count_include_pad, or no padding, got padding that does not count")
    n, h, w, c = shape_of(op.operands[0])
    top, bottom, left, right = attrs["padding"]
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel"], attrs["stride"], attrs["dilation"]
    return (n, window(h, kh, sh, top, bottom, dh), window(w, kw, sw, left, right, dw), c)


def sliced(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """Begin, end and step per dim."""
    bounds = zip(attrs["begins"], attrs["ends"], attrs["step"], strict=True)
    return tuple(max(0, -(-(end - begin) // step)) for begin, end, step in bounds)


def concatenated(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """Operands laid end to end along `dim`."""
    shapes = [shape_of(v) for v in op.operands]
    dim = attrs["dim"]
    return (*shapes[0][:dim], sum(s[dim] for s in shapes), *shapes[0][dim + 1 :])


def padded(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """Low, high and interior padding per dim; low and high may be negative."""
    shape, padding = shape_of(op.operands[0]), attrs["padding"]
    edges = zip(shape, padding[0::2], padding[1::2], attrs.get("interior", [0] * len(shape)), strict=True)
    return tuple(low + n + max(n - 1, 0) * inner + high for n, low, high, inner in edges)


def same(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """The shape of operand 0."""
    return shape_of(op.operands[0])


def unchecked(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """No rule, because the pattern that emits the op takes the shape from StableHLO, whose verifier checked it."""
    return None
