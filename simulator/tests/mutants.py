"""Broken kernels that test whether verdicts detect errors: each mutation is a mistake that an author could make.

`mutations_for("conv2d", params)` lists the mistakes that apply to a kernel; `with mutation.apply():` puts the broken
kernel into the registry and takes it out again. A mutation does not depend on data, so on some inputs it changes
nothing (`le` instead of `lt` if no two elements are equal). `changes_result` checks that for an op.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opscope.compiler.target.formats import FACE, TILE
from opscope.compiler.target.program import (
    Conv2dParams,
    GatherParams,
    Params,
    Pool2dParams,
    ReduceParams,
    ReshapeParams,
    SliceParams,
)
from opscope.compiler.target.rounding import to_tf32
from opscope.simulator.errors import DeviceError
from opscope.simulator.kernels.registry import KERNELS, Call, Images, KernelFunction

if TYPE_CHECKING:
    from opscope.simulator.device import Executable

Result = np.ndarray | Images


@dataclass(frozen=True)
class Mutation:
    """One mistake in one kernel."""

    name: str
    kernel: str
    wrap: Callable[[KernelFunction], KernelFunction]

    @contextlib.contextmanager
    def apply(self) -> Iterator[None]:
        """Puts the broken kernel into the registry for the duration of the block."""
        right = KERNELS[self.kernel]
        KERNELS[self.kernel] = dataclasses.replace(right, function=self.wrap(right.function))
        try:
            yield
        finally:
            KERNELS[self.kernel] = right


def _on_result(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[KernelFunction], KernelFunction]:
    """A kernel whose result is changed."""

    def wrap(function: KernelFunction) -> KernelFunction:
        def broken(images: Images, call: Call) -> Result:
            result = function(images, call)
            return [change(np.array(r)) for r in result] if isinstance(result, list) else change(np.array(result))

        return broken

    return wrap


def _on_inputs(change: Callable[[Images], Images]) -> Callable[[KernelFunction], KernelFunction]:
    """A kernel whose operands are changed."""

    def wrap(function: KernelFunction) -> KernelFunction:
        return lambda images, call: function(change(list(images)), call)

    return wrap


def _on_params(change: Callable[[Params], Params]) -> Callable[[KernelFunction], KernelFunction]:
    """A kernel whose parameters are changed."""

    def wrap(function: KernelFunction) -> KernelFunction:
        return lambda images, call: function(images, dataclasses.replace(call, params=change(call.params)))

    return wrap


def _in_lofi(function: KernelFunction) -> KernelFunction:
    """A kernel that runs only the first phase of the multiplier, whatever the fidelity is."""

    def broken(images: Images, call: Call) -> Result:
        return function(images, dataclasses.replace(call, numerics=dataclasses.replace(call.numerics, fidelity="LoFi")))

    return broken


def _on_float32(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[KernelFunction], KernelFunction]:
    """A kernel whose result is changed if it is stored as Float32; narrower formats would round the change away."""

    def wrap(function: KernelFunction) -> KernelFunction:
        def broken(images: Images, call: Call) -> Result:
            result = function(images, call)
            if call.outputs[0].data_format != "Float32" or isinstance(result, list):
                return result
            return change(np.array(result, dtype=np.float32))

        return broken

    return wrap


def _other_kernel(other: str) -> Callable[[KernelFunction], KernelFunction]:
    """Another kernel in the kernel's place."""
    return lambda function: lambda images, call: KERNELS[other].function(images, call)


# --- mistakes in results


LEFT_OVER = 0.5
"""The old content of a buffer, which is not 0, so that a tensor of zeros shows it too. For integers it is 1."""


def _left_over(dtype: np.dtype) -> float | int:
    return LEFT_OVER if dtype.kind == "f" else 1


def _skip_face(result: np.ndarray) -> np.ndarray:
    """The last face of every tile is never written."""
    if result.ndim == 0:
        return np.full_like(result, _left_over(result.dtype))
    rows = result.shape[-2] if result.ndim > 1 else 1
    last = [np.arange(size) % TILE // FACE == (min(size, TILE) - 1) // FACE for size in (rows, result.shape[-1])]
    hole = np.outer(*last)
    if result.ndim == 1:
        hole = hole[0]
    result[..., hole] = _left_over(result.dtype)
    return result


def _stale_tile(result: np.ndarray) -> np.ndarray:
    """The last row of tiles still holds the one before it, or the buffer's old content."""
    axis = max(result.ndim - 2, 0)
    if result.ndim == 0 or result.shape[axis] == 0:
        return np.full_like(result, _left_over(result.dtype))
    size = result.shape[axis]
    start = (size - 1) // TILE * TILE
    index: list[slice] = [slice(None)] * result.ndim
    index[axis] = slice(start, size)
    before = list(index)
    before[axis] = slice(start - (size - start), start)
    stale = result[tuple(before)] if start else None
    if stale is None or np.array_equal(stale, result[tuple(index)]):
        result[tuple(index)] = _left_over(result.dtype)
    else:
        result[tuple(index)] = stale
    return result


def _one_element(result: np.ndarray, where: float) -> np.ndarray:
    """One element twice as large; where it is zero, the old content of its buffer."""
    if result.size:
        at = int(where * result.size)
        value = result.flat[at]
        doubled = value == 0 if result.dtype.kind == "b" else value + value
        result.flat[at] = doubled if doubled != value else _left_over(result.dtype)
    return result


def _one_face_row(result: np.ndarray, where: float) -> np.ndarray:
    """One row of a face, 16 elements, that is never written; where it is zero, its buffer has old content."""
    if result.size:
        rows = result.reshape(-1, result.shape[-1] if result.ndim else 1)
        faces = -(-rows.shape[1] // FACE)
        row, face = divmod(int(where * len(rows) * faces), faces)
        part = rows[row, face * FACE : (face + 1) * FACE]
        part[...] = 0 if part.any() else _left_over(result.dtype)
    return result


PLACED: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "one_element": _one_element,
    "one_face_row": _one_face_row,
}
"""The smallest mistakes, by name: in one place of a result. `where` says which, from 0 (the first) to 1."""


def placed_mutation(name: str, kernel: str, where: float) -> Mutation:
    """A kernel that is wrong in one place of its result only."""
    return Mutation(name, kernel, _on_result(lambda result: PLACED[name](result, where)))


def _scale(result: np.ndarray) -> np.ndarray:
    """A scale that is a sixteenth too large. Integers are one too large, booleans inverted."""
    if result.dtype.kind == "f":
        return result * np.float32(1.0625)
    return result == 0 if result.dtype.kind == "b" else result + result.dtype.type(1)


def _offset(result: np.ndarray) -> np.ndarray:
    """A wrong epsilon: a twentieth of the largest element added everywhere."""
    finite = np.abs(result[np.isfinite(result)])
    return result + np.float32(0.05) * (finite.max() if finite.size else np.float32(1))


def _roll(result: np.ndarray) -> np.ndarray:
    """Every element one place too late."""
    return np.roll(result, 1)


def _fortran(result: np.ndarray) -> np.ndarray:
    """Elements in column-major order."""
    return result.ravel().reshape(result.shape[::-1]).T


def _small_epsilon(result: np.ndarray) -> np.ndarray:
    """An epsilon of 1e-5 forgotten, beside elements of about 1."""
    return result * np.float32(1 - 1e-5)


def _through_tf32(result: np.ndarray) -> np.ndarray:
    """Float32 that came through the matrix unit's registers instead of straight to Dst."""
    return to_tf32(result)


_FINE = (("small_epsilon", _on_float32(_small_epsilon)), ("through_tf32", _on_float32(_through_tf32)))
FINE = frozenset(name for name, _ in _FINE)
"""Mistakes in the last digits of Float32; they change nothing else."""


# --- mistakes in operands


def _swap(images: Images) -> Images:
    """The last two operands in the wrong order."""
    return [*images[:-2], images[-1], images[-2]]


def _reversed(images: Images) -> Images:
    return images[::-1]


def _drop_last(images: Images) -> Images:
    """The last operand (a bias, a residual) forgotten."""
    return [*images[:-1], np.zeros_like(images[-1])]


def _one_for_last(images: Images) -> Images:
    """The last operand (a factor) forgotten."""
    return [*images[:-1], np.ones_like(images[-1])]


def _transpose_faces(images: Images) -> Images:
    """Each whole 16x16 face of the last operand's last two dims transposed."""
    x = np.array(images[-1])
    if x.ndim < 2:
        return [*images[:-1], x[::-1]]
    rows, cols = (size // FACE * FACE for size in x.shape[-2:])
    if not rows or not cols:
        x[...] = np.flip(x, (-1, -2))
        return [*images[:-1], x]
    faces = x[..., :rows, :cols].reshape(*x.shape[:-2], rows // FACE, FACE, cols // FACE, FACE)
    x[..., :rows, :cols] = faces.swapaxes(-1, -3).reshape(*x.shape[:-2], rows, cols)
    return [*images[:-1], x]


def _next_index(position: int) -> Callable[[Images], Images]:
    def change(images: Images) -> Images:
        return [image + image.dtype.type(1) if i == position else image for i, image in enumerate(images)]

    return change


# --- mistakes in parameters


def _shift_padding(params: Params) -> Params:
    """Windows one column to the left: a column of padding on the wrong side."""
    assert isinstance(params, Conv2dParams | Pool2dParams)
    top, bottom, left, right = params.padding
    return dataclasses.replace(params, padding=(top, bottom, left + 1, right - 1))


def _shift_rows(params: Params) -> Params:
    """Windows one row higher."""
    assert isinstance(params, Conv2dParams | Pool2dParams)
    top, bottom, left, right = params.padding
    return dataclasses.replace(params, padding=(top + 1, bottom - 1, left, right))


def _shift_slice(params: Params) -> Params:
    """A slice that begins one later in its first cut dim, and ends one later."""
    assert isinstance(params, SliceParams)
    begins, ends = list(params.begins), list(params.ends)
    for dim, begin in enumerate(begins):
        if begin > 0:
            begins[dim], ends[dim] = begin - 1, ends[dim] - 1
            return dataclasses.replace(params, begins=tuple(begins), ends=tuple(ends))
    return dataclasses.replace(params, begins=tuple(b + 1 for b in begins), ends=tuple(e + 1 for e in ends))


def _wrong_axis(function: KernelFunction) -> KernelFunction:
    """A reduction over the dim before the right one, its result cut or repeated to the right size."""

    def broken(images: Images, call: Call) -> Result:
        assert isinstance(call.params, ReduceParams)
        rank = images[0].ndim
        dims = tuple((d - 1) % rank for d in call.params.dims)
        if set(dims) == {d % rank for d in call.params.dims}:
            dims = dims[1:]
        wrong = dataclasses.replace(call, params=dataclasses.replace(call.params, dims=dims))
        return np.resize(np.asarray(function(images, wrong)), call.outputs[0].shape)

    return broken


def _drop_channels(images: Images) -> Images:
    """The first of the inner dim's channels forgotten: one face of them, or a quarter where there are fewer."""
    x = np.array(images[0])
    x[..., : max(1, min(FACE, x.shape[-1] // 4))] = 0
    return [x, *images[1:]]


def _shift_channels(images: Images) -> Images:
    """Weights are applied to the next channel; with only one channel they are reversed instead."""
    weight = images[1]
    turned = np.roll(weight, 1, 1) if weight.shape[1] > 1 else np.flip(weight, (-1, -2))
    return [images[0], turned, *images[2:]]


OTHER: dict[str, tuple[str, ...]] = {
    "exp": ("exp2", "expm1"),
    "log": ("log1p",),
    "log1p": ("log",),
    "tanh": ("erf",),
    "erf": ("tanh",),
    "erfc": ("erf",),
    "sqrt": ("rsqrt",),
    "rsqrt": ("sqrt", "reciprocal"),
    "sin": ("cos",),
    "cos": ("sin",),
    "floor": ("ceil",),
    "ceil": ("floor",),
    "sigmoid": ("tanh",),
    "abs": ("neg",),
    "neg": ("abs",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "add": ("subtract", "maximum"),
    "subtract": ("add",),
    "multiply": ("add", "divide"),
    "divide": ("multiply",),
    "eq": ("ne",),
    "ne": ("eq",),
    "lt": ("gt", "le"),
    "gt": ("lt", "ge"),
    "le": ("ge", "lt"),
    "ge": ("le", "gt"),
    "logical_and": ("logical_or",),
    "logical_or": ("logical_and",),
    "max": ("min",),
    "min": ("max",),
    "sum": ("max", "mean"),
    "mean": ("sum",),
    "argmax": ("argmin",),
    "max_pool2d": ("min_pool2d", "avg_pool2d"),
    "sum_pool2d": ("max_pool2d",),
    "avg_pool2d": ("max_pool2d",),
    "reduce_and": ("reduce_or",),
    "reduce_or": ("reduce_and",),
}
"""Kernel -> the kernel that a wrong line in a table would name instead."""

NOT_COMMUTATIVE = frozenset(
    {"subtract", "divide", "remainder", "pow_tensor", "atan2", "lt", "le", "gt", "ge", "where", "clamp_tensor"}
)

_BY_KERNEL: dict[str, tuple[tuple[str, Callable[[KernelFunction], KernelFunction]], ...]] = {
    "conv2d": (
        ("off_by_one_pad_columns", _on_params(_shift_padding)),
        ("off_by_one_pad_rows", _on_params(_shift_rows)),
        ("dropped_channels", _on_inputs(_drop_channels)),
        ("shifted_channels", _on_inputs(_shift_channels)),
    ),
    "matmul": (
        ("transposed_faces", _on_inputs(_transpose_faces)),
        ("dropped_columns", _on_inputs(_drop_channels)),
    ),
    "concat": (("operand_order", _on_inputs(_reversed)),),
    "permute": (("off_by_one", _on_result(_roll)),),
    "broadcast": (("off_by_one", _on_inputs(lambda images: [_roll(images[0])])),),
    "reverse": (("off_by_one", _on_result(_roll)),),
    "pad": (("off_by_one_pad", _on_result(_roll)),),
    "slice_static": (("off_by_one_begin", _on_params(_shift_slice)),),
    "embedding": (("off_by_one_index", _on_inputs(_next_index(0))),),
    "gather": (("off_by_one_index", _on_inputs(_next_index(1))),),
    "rows_gather": (("off_by_one_index", _on_inputs(_next_index(1))),),
    "add": (("dropped_bias", _on_inputs(_drop_last)),),
    "subtract": (("dropped_operand", _on_inputs(_drop_last)),),
    "multiply": (("dropped_factor", _on_inputs(_one_for_last)),),
    "divide": (("dropped_factor", _on_inputs(_one_for_last)),),
}

NO_MUTANTS = frozenset({"deallocate", "to_device", "from_device", "to_memory_config", "to_layout"})
"""Kernels that have no result of their own, or only choose where a tensor is placed."""


def mutations_for(kernel: str, params: Params | None = None) -> list[Mutation]:
    """Returns the mistakes that apply to `kernel` with `params`. Raises KeyError for an unknown kernel."""
    known = KERNELS[kernel]
    if kernel in NO_MUTANTS:
        return []
    mutations = list(_BY_KERNEL.get(kernel, ()))
    mutations += [(f"{other}_instead", _other_kernel(other)) for other in OTHER.get(kernel, ())]
    if kernel in NOT_COMMUTATIVE:
        mutations.append(("operand_order", _on_inputs(_swap)))
    if isinstance(params, ReshapeParams) and sum(size > 1 for size in params.shape) > 1:
        mutations.append(("column_major", _on_result(_fortran)))
    if issubclass(known.params, Pool2dParams):
        mutations += [
            ("off_by_one_pad_columns", _on_params(_shift_padding)),
            ("off_by_one_pad_rows", _on_params(_shift_rows)),
        ]
    if issubclass(known.params, ReduceParams):
        mutations.append(("wrong_axis", _wrong_axis))
    mutations += [("skipped_face", _on_result(_skip_face)), ("stale_tile", _on_result(_stale_tile))]
    moves = known.unit == "move" or issubclass(known.params, GatherParams)
    if not moves:
        mutations.append(("wrong_scale", _on_result(_scale)))
        if kernel in _FLOATING:
            mutations.append(("wrong_epsilon", _on_result(_offset)))
        if known.unit == "matrix":
            mutations.append(("lost_fidelity", _in_lofi))
        else:
            mutations += _FINE
    return [Mutation(name, kernel, wrap) for name, wrap in mutations]


def changes_result(mutation: Mutation, executable: Executable, inputs: Images) -> bool:
    """Whether the broken kernel gives other bytes, or an error, on these inputs."""
    right = executable.run(inputs).outputs
    with mutation.apply():
        try:
            wrong = executable.run(inputs).outputs
        except DeviceError:
            return True
    return any(a.tobytes() != b.tobytes() for a, b in zip(right, wrong, strict=True))


_FLOATING = frozenset(
    {"matmul", "conv2d", "exp", "rsqrt", "sqrt", "tanh", "erf", "erfc", "log", "sigmoid", "mean", "avg_pool2d"}
)
"""Kernels whose results are always floats."""
