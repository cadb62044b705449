"""Small device programs for tests: one kernel between host inputs and host outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.compiler.target.binary import write
from opscope.compiler.target.formats import default_format
from opscope.compiler.target.program import Binary, LayoutParams, Numerics, Operation, Params, Program, TensorDesc
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.api import Device, RunResult

DEFAULT = Numerics()
NAMES = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "int32": "i32",
    "uint32": "ui32",
    "int16": "i16",
    "int8": "i8",
    "uint16": "ui16",
    "uint8": "ui8",
    "bool": "i1",
}


def desc(shape: Sequence[int], element_type: str, data_format: str | None = None, *, host: bool = False) -> TensorDesc:
    fmt = default_format(element_type)
    assert fmt is not None
    name = fmt.name if data_format is None or not fmt.is_float else data_format
    if host:
        return TensorDesc(tuple(shape), element_type, fmt.name, "row_major", "system_memory")
    return TensorDesc(tuple(shape), element_type, name, "tile", "dram")


def one_kernel(
    kernel: str,
    params: Params,
    inputs: Sequence[tuple[Sequence[int], str]],
    output: tuple[Sequence[int], str],
    numerics: Numerics = DEFAULT,
    *,
    board: str = "n150",
    data_format: str | None = None,
    more: Sequence[tuple[Sequence[int], str]] = (),
) -> Binary:
    """A program that brings its inputs to DRAM, calls one kernel and brings the result back, with `more` results."""
    tensors: list[TensorDesc] = []
    ops: list[Operation] = []
    host: list[int] = []
    device: list[int] = []
    for shape, element_type in inputs:
        host.append(len(tensors))
        device.append(len(tensors) + 1)
        tensors += [desc(shape, element_type, host=True), desc(shape, element_type, data_format)]
        ops.append(Operation("to_device", (host[-1],), (device[-1],), LayoutParams()))
    results = (output, *more)
    out = tuple(range(len(tensors), len(tensors) + 2 * len(results), 2))
    for result in results:
        tensors += [desc(*result, data_format), desc(*result, host=True)]
    ops.append(Operation(kernel, tuple(device), out, params, numerics))
    ops += [Operation("from_device", (place,), (place + 1,), LayoutParams()) for place in out]
    program = Program("main", tuple(tensors), tuple(host), tuple(place + 1 for place in out), tuple(ops))
    return Binary(board, load_board(board).arch, (program,))


SPECIAL = np.float32(
    [
        *(0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 3.4e38, -3.4e38),
        *(1e-45, -1e-45, 5.877e-39, 1.17549421e-38, 2.0**-126, -(2.0**-126), 1e-36, 2.0**-64, 2.0**-24),
    ]
)
"""Zeros, ends, denormals and other small numbers."""


def run_kernel(*args: Any, **options: Any) -> np.ndarray:
    """The one result of `run_result`."""
    return run_result(*args, **options).outputs[0]


def run_result(
    kernel: str,
    params: Params,
    arrays: Sequence[np.ndarray],
    shape: Sequence[int],
    element_type: str,
    numerics: Numerics = DEFAULT,
    *,
    data_format: str | None = None,
    device: Device | None = None,
) -> RunResult:
    """Compiles `one_kernel` and runs it through the file's bytes, as a device would (by default an n150)."""
    device = device or Device("n150")
    inputs = [(array.shape, NAMES[array.dtype.name]) for array in arrays]
    binary = one_kernel(
        kernel, params, inputs, (shape, element_type), numerics, board=device.system.board, data_format=data_format
    )
    return device.load(write(binary)).run(arrays)


def run_several(
    kernel: str, params: Params, arrays: Sequence[np.ndarray], outputs: Sequence[tuple[Sequence[int], str]]
) -> list[np.ndarray]:
    """The results of a kernel that has several, on an n150."""
    inputs = [(array.shape, NAMES[array.dtype.name]) for array in arrays]
    binary = one_kernel(kernel, params, inputs, outputs[0], more=outputs[1:])
    return list(Device("n150").load(write(binary)).run(arrays).outputs)
