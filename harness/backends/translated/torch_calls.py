"""Single ops of StableHLO as calls of PyTorch, for its compiler: a row for each op that PyTorch can say.

What PyTorch has no call for is declined with the reason. A row computes with whatever tensors it is given, so that it
can be traced as well as run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opscope.harness.backends.base import Declined
from opscope.harness.backends.translated.single_op import SingleOp, read
from opscope.harness.record.element_types import numpy_dtype

ELEMENTS = {
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "ui8": torch.uint8,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "complex<f32>": torch.complex64,
    "complex<f64>": torch.complex128,
}
"""Element types that most of PyTorch's functions take."""

Row = Callable[..., Tensor]
"""Takes the op and a tensor for each operand."""


class Call(torch.nn.Module):
    """An op as a module that PyTorch traces; its inputs are the arguments of the op's module, in their order."""

    def __init__(self, op: SingleOp, row: Row) -> None:
        super().__init__()
        self.op, self.row = op, row
        for number, value in op.constants.items():
            self.register_buffer(f"c{number}", to_torch(value))

    def forward(self, *inputs: Tensor) -> tuple[Tensor]:
        """The result."""
        places = enumerate(self.op.form.arguments)
        operands = [inputs[argument] if argument >= 0 else getattr(self, f"c{number}") for number, argument in places]
        return (self.row(self.op, *operands),)


def call_of(module: bytes) -> tuple[Call, list[Tensor]]:
    """A single-op module as PyTorch says it, and arguments of its types. Raises Declined for what it cannot say."""
    op = read(module, "call of PyTorch", ELEMENTS)
    form = op.form
    row = ROWS.get(form.name)
    if row is None or len(form.results) != 1:
        raise Declined(f"no function of PyTorch computes {form.name}{' of several results' if row is not None else ''}")
    types = {argument: (form.operands[n], form.types[n]) for n, argument in enumerate(form.arguments) if argument >= 0}
    return Call(op, row), [torch.ones(types[n][0], dtype=ELEMENTS[types[n][1]]) for n in sorted(types)]


def to_torch(array: np.ndarray) -> Tensor:
    """An array as PyTorch has it. It knows no NumPy type of another package, such as bfloat16."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16").copy()).view(torch.bfloat16)
    return torch.tensor(array)


def to_numpy(value: Tensor) -> np.ndarray:
    """A result as NumPy has it."""
    value = value.contiguous()
    if value.dtype is torch.bfloat16:
        return value.view(torch.int16).numpy().view(numpy_dtype("bf16"))
    return value.resolve_conj().resolve_neg().numpy().copy()


# --- the rows


def _same(function: Callable[..., Tensor]) -> Row:
    """An op that PyTorch has with this name."""
    return lambda op, *operands: function(*operands)


def _divide(op: SingleOp, one: Tensor, two: Tensor) -> Tensor:
    if one.is_floating_point() or one.is_complex():
        return torch.div(one, two)
    return torch.div(one, two, rounding_mode="trunc")


def _sign(op: SingleOp, value: Tensor) -> Tensor:
    if not value.is_floating_point():
        return torch.sign(value)
    return torch.where((value == 0) | torch.isnan(value), value, torch.sign(value))  # PyTorch's of NaN is 0


def _shift_right_logical(op: SingleOp, value: Tensor, by: Tensor) -> Tensor:
    if value.dtype.is_signed:
        raise Declined("PyTorch shifts signed numbers with their sign alone")
    return torch.bitwise_right_shift(value, by)


def _compare(op: SingleOp, one: Tensor, two: Tensor) -> Tensor:
    names = {"EQ": torch.eq, "NE": torch.ne, "LT": torch.lt, "LE": torch.le, "GT": torch.gt, "GE": torch.ge}
    if (direction := op.direction()) not in names:
        raise Declined("PyTorch compares floats in IEEE's order alone")
    return names[direction](one, two)


def _clamp(op: SingleOp, low: Tensor, value: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(value, low), high)


def _convert(op: SingleOp, value: Tensor) -> Tensor:
    return value.to(_result_type(op))


def _bitcast_convert(op: SingleOp, value: Tensor) -> Tensor:
    wider = _result_type(op).itemsize > value.dtype.itemsize
    return (value if wider else value.unsqueeze(-1)).view(_result_type(op)).reshape(op.form.results[0])


def _result_type(op: SingleOp) -> torch.dtype:
    return ELEMENTS[op.form.result_types[0]]


def _iota(op: SingleOp) -> Tensor:
    (dim,), shape = op.numbers("iota_dimension", 0, 1), op.form.results[0]
    return _along(torch.arange(shape[dim]).to(_result_type(op)), dim, len(shape)).expand(shape)


def _along(value: Tensor, dim: int, rank: int) -> Tensor:
    """A list as a tensor of so many dimensions, along one of them."""
    return value.reshape([-1 if place == dim else 1 for place in range(rank)])


def _reshape(op: SingleOp, value: Tensor) -> Tensor:
    return torch.reshape(value, op.form.results[0])


def _transpose(op: SingleOp, value: Tensor) -> Tensor:
    return torch.permute(value, op.numbers("permutation", 0, 0))


def _broadcast(op: SingleOp, value: Tensor) -> Tensor:
    shape = [1] * len(op.form.results[0])
    for size, dim in zip(value.shape, op.numbers("broadcast_dimensions", 0, 0), strict=True):
        shape[dim] = size
    return value.reshape(shape).expand(op.form.results[0])


def _concatenate(op: SingleOp, *values: Tensor) -> Tensor:
    return torch.cat(values, op.numbers("dimension", 0, 1)[0])


def _slice(op: SingleOp, value: Tensor) -> Tensor:
    bounds = (op.numbers(name, 1, value.ndim) for name in ("start_indices", "limit_indices", "strides"))
    return value[tuple(slice(*each) for each in zip(*bounds, strict=True))]


def _reverse(op: SingleOp, value: Tensor) -> Tensor:
    return torch.flip(value, op.numbers("dimensions", 0, 0))


def _pad(op: SingleOp, value: Tensor, around: Tensor) -> Tensor:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return _padded(value, around, *(op.numbers(name, 0, value.ndim) for name in names))


def _padded(value: Tensor, around: Tensor, low: Sequence[int], high: Sequence[int], inside: Sequence[int]) -> Tensor:
    """A tensor with others around and between its elements; less than nothing takes some away."""
    for dim, (before, after, between) in enumerate(zip(low, high, inside, strict=True)):
        if value.shape[dim] and between:
            shape = list(value.shape)
            shape[dim] += (shape[dim] - 1) * between
            value = torch.slice_scatter(around.expand(shape).clone(), value, dim, 0, shape[dim], 1 + between)
        kept = range(max(0, -before), value.shape[dim] - max(0, -after))
        value = value.narrow(dim, min(kept.start, value.shape[dim]), len(kept))
        sides = [[*value.shape[:dim], max(0, count), *value.shape[dim + 1 :]] for count in (before, after)]
        value = torch.cat([around.expand(sides[0]), value, around.expand(sides[1])], dim)
    return value


def _dot_general(op: SingleOp, one: Tensor, two: Tensor) -> Tensor:
    left, right, batch, summed = op.product()
    free = "".join(letter for letter in left + right if letter not in batch + summed)
    kind = _result_type(op)
    return torch.einsum(f"{left},{right}->{batch}{free}", one.to(kind), two.to(kind))


def _product(value: Tensor, dims: Sequence[int]) -> Tensor:
    """Along several dimensions, of which PyTorch takes one at a time."""
    return reduce(lambda left, dim: torch.prod(left, dim, dtype=value.dtype), sorted(dims, reverse=True), value)


_REDUCTIONS: Mapping[str, tuple[Callable[[Tensor, Any], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "stablehlo.add": (lambda value, dims: torch.sum(value, dims, dtype=value.dtype), torch.add),
    "stablehlo.multiply": (_product, torch.mul),
    "stablehlo.maximum": (torch.amax, torch.maximum),
    "stablehlo.minimum": (torch.amin, torch.minimum),
}
"""What a body returns -> what PyTorch calls it along dimensions, and of two tensors."""
_OF_BOOLEANS = {
    **dict.fromkeys(("stablehlo.add", "stablehlo.or", "stablehlo.maximum"), (torch.any, torch.logical_or)),
    **dict.fromkeys(("stablehlo.multiply", "stablehlo.and", "stablehlo.minimum"), (torch.all, torch.logical_and)),
}


def _reduced(op: SingleOp, value: Tensor, start: Tensor, dims: Sequence[int]) -> Tensor:
    """A tensor reduced along some dimensions, from a start value."""
    known = _OF_BOOLEANS if value.dtype is torch.bool else _REDUCTIONS
    if len(op.kinds) != 1 or op.form.region_ops != 1 or op.kinds[0] not in known:
        raise Declined("PyTorch reduces by sum, product, largest or smallest, and booleans by `any` and `all`")
    along, together = known[op.kinds[0]]
    if not all(value.shape[dim] for dim in dims):
        return start.expand(op.form.results[0])
    return together(along(value, tuple(dims)), start) if dims else together(value, start)


def _reduce(op: SingleOp, value: Tensor, start: Tensor) -> Tensor:
    return _reduced(op, value, start, op.numbers("dimensions", 0, 0))


def _reduce_window(op: SingleOp, value: Tensor, start: Tensor) -> Tensor:
    rank = value.ndim
    names = ("window_dimensions", "window_strides", "window_dilations", "base_dilations")
    sizes, strides, steps, inside = (op.numbers(name, 1, rank) for name in names)
    padding = op.numbers("padding", 0, 2 * rank)
    value = _padded(value, start, padding[::2], padding[1::2], [each - 1 for each in inside])
    for dim, (size, stride, step) in enumerate(zip(sizes, strides, steps, strict=True)):
        value = value.unfold(dim, (size - 1) * step + 1, stride)[..., ::step]
    return _reduced(op, value, start, range(rank, 2 * rank))


def _convolution(op: SingleOp, image: Tensor, kernel: Tensor) -> Tensor:
    names = op.convolved()
    spatial = image.ndim - 2
    functions = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
    if spatial not in functions or op.numbers("batch_group_count", 1, 1) != (1,):
        raise Declined("PyTorch convolves along one to three dimensions, without groups of the batch")
    kind, whole = _result_type(op), [str(dim) for dim in range(spatial)]
    image = image.permute([names[0].index(name) for name in ("b", "f", *whole)]).to(kind)
    kernel = kernel.permute([names[1].index(name) for name in ("o", "i", *whole)]).to(kind)
    if "true" in (reversal := op.text("window_reversal")):
        turned = ["true" in each for each in reversal.partition(":")[2].split(",")]
        kernel = kernel.flip([2 + dim for dim in range(spatial) if turned[min(dim, len(turned) - 1)]])
    padding, inside = op.numbers("padding", 0, 2 * spatial), op.numbers("lhs_dilation", 1, spatial)
    around = torch.zeros((), dtype=kind)
    image = _padded(image, around, (0, 0, *padding[::2]), (0, 0, *padding[1::2]), (0, 0, *(n - 1 for n in inside)))
    strides, steps = op.numbers("window_strides", 1, spatial), op.numbers("rhs_dilation", 1, spatial)
    (groups,) = op.numbers("feature_group_count", 1, 1)
    made = functions[spatial](image, kernel, stride=strides, dilation=steps, groups=groups)
    return made.permute([["b", "f", *whole].index(name) for name in names[2]])


def _gather(op: SingleOp, value: Tensor, indices: Tensor, *_: Tensor) -> Tensor:
    names = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims")
    offset, collapsed, batching, of_indices = (op.listed("dimension_numbers", name) for name in names)
    mapped = op.listed("dimension_numbers", "start_index_map")
    (vector,) = op.listed("dimension_numbers", "index_vector_dim") or (0,)
    sizes, rank = op.numbers("slice_sizes", 0, 0), len(op.form.results[0])
    starts = indices.unsqueeze(-1) if vector == indices.ndim else indices.movedim(vector, -1)
    batch = [dim for dim in range(rank) if dim not in offset]
    spread = [starts.shape[batch.index(dim)] if dim in batch else 1 for dim in range(rank)]
    of_batch = [dim for dim in range(indices.ndim) if dim != vector]
    offsets = iter(sorted(offset))
    places = []
    for dim, size in enumerate(sizes):
        place = torch.zeros([1] * rank, dtype=torch.int64)
        if dim in mapped:
            start = starts[..., mapped.index(dim)].to(torch.int64)
            place = start.clamp(0, value.shape[dim] - size).reshape(spread)
        elif dim in batching:
            theirs = of_indices[batching.index(dim)]
            place = _along(torch.arange(value.shape[dim]), batch[of_batch.index(theirs)], rank)
        if dim not in collapsed and dim not in batching:
            place = place + _along(torch.arange(size), next(offsets), rank)
        places.append(place)
    return value[tuple(places)].expand(op.form.results[0])


def _dynamic_slice(op: SingleOp, value: Tensor, *starts: Tensor) -> Tensor:
    for dim, (start, size) in enumerate(zip(starts, op.numbers("slice_sizes", 0, 0), strict=True)):
        first = start.to(torch.int64).clamp(0, value.shape[dim] - size)
        value = torch.index_select(value, dim, first + torch.arange(size))
    return value


def _dynamic_update_slice(op: SingleOp, value: Tensor, update: Tensor, *starts: Tensor) -> Tensor:
    rank = value.ndim
    places: list[Tensor | None] = [
        _along(start.to(torch.int64).clamp(0, value.shape[dim] - size) + torch.arange(size), dim, rank)
        for dim, (start, size) in enumerate(zip(starts, update.shape, strict=True))
    ]
    return torch.index_put(value, places, update)


ROWS: Mapping[str, Row] = {
    **{
        f"stablehlo.{name}": _same(function)
        for name, function in {
            "abs": torch.abs,
            "add": torch.add,
            "and": torch.bitwise_and,
            "atan2": torch.atan2,
            "ceil": torch.ceil,
            "complex": torch.complex,
            "cosine": torch.cos,
            "exponential": torch.exp,
            "exponential_minus_one": torch.expm1,
            "floor": torch.floor,
            "imag": torch.imag,
            "is_finite": torch.isfinite,
            "log": torch.log,
            "log_plus_one": torch.log1p,
            "logistic": torch.sigmoid,
            "maximum": torch.maximum,
            "minimum": torch.minimum,
            "multiply": torch.mul,
            "negate": torch.neg,
            "not": torch.bitwise_not,
            "or": torch.bitwise_or,
            "power": torch.pow,
            "real": torch.real,
            "remainder": torch.fmod,
            "round_nearest_even": torch.round,
            "rsqrt": torch.rsqrt,
            "select": torch.where,
            "shift_left": torch.bitwise_left_shift,
            "shift_right_arithmetic": torch.bitwise_right_shift,
            "sine": torch.sin,
            "sqrt": torch.sqrt,
            "subtract": torch.sub,
            "tan": torch.tan,
            "tanh": torch.tanh,
            "xor": torch.bitwise_xor,
        }.items()
    },
    **{
        f"chlo.{name}": _same(function)
        for name, function in {
            "acos": torch.acos,
            "acosh": torch.acosh,
            "asin": torch.asin,
            "asinh": torch.asinh,
            "atan": torch.atan,
            "atanh": torch.atanh,
            "bessel_i1e": torch.special.i1e,
            "cosh": torch.cosh,
            "digamma": torch.digamma,
            "erf": torch.erf,
            "erf_inv": torch.erfinv,
            "erfc": torch.erfc,
            "is_inf": torch.isinf,
            "lgamma": torch.lgamma,
            "next_after": torch.nextafter,
            "sinh": torch.sinh,
            "square": torch.square,
            "tan": torch.tan,
            "zeta": torch.special.zeta,
        }.items()
    },
    "stablehlo.bitcast_convert": _bitcast_convert,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.convert": _convert,
    "stablehlo.convolution": _convolution,
    "stablehlo.divide": _divide,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.shift_right_logical": _shift_right_logical,
    "stablehlo.sign": _sign,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
