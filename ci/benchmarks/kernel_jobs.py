"""Recorded runs of real kernels, as operations of ours: an index of jobs, and archives of what went in and came out.

`index.json` names for each job the op, its arguments, number formats, shapes, the arrays that went in and the one that
came out. Bits are uint16 of bfloat16 or uint32 of float32, of block floats as float32; `delta16` are differences of
neighbours.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from opscope.compiler.target.fused_params import NormParams, SoftmaxParams
from opscope.compiler.target.numerics import ttnn_numerics
from opscope.compiler.target.program import (
    EltwiseParams,
    MatmulParams,
    Numerics,
    Operation,
    Params,
    Program,
    ReduceParams,
    TensorDesc,
)
from opscope.simulator.images import widened
from opscope.simulator.kernels import KERNELS

INDEX = "index.json"
EPSILON = 1e-12
"""Of ttnn's norms, where none is given."""
FORMATS = {
    "bf16": ("bf16", "Float16_b"),
    "f32": ("f32", "Float32"),
    "bfp8": ("bf16", "Bfp8_b"),
    "bfp4": ("bf16", "Bfp4_b"),
    "bfloat16": ("bf16", "Float16_b"),
    "float32": ("f32", "Float32"),
    "bfloat8_b": ("bf16", "Bfp8_b"),
    "bfloat4_b": ("bf16", "Bfp4_b"),
    "int32": ("i32", "Int32"),
    "uint32": ("ui32", "UInt32"),
    "uint16": ("ui16", "UInt16"),
    "uint8": ("ui8", "UInt8"),
}
"""A format of the index, in small letters -> our element type and data format."""


class JobError(ValueError):
    """A folder of another form; the message says what was expected."""


@dataclass(frozen=True)
class KernelJob:
    """One run of a real kernel, and the operation of ours that it is."""

    name: str
    kind: str
    operation: Operation
    program: Program
    values: dict[int, np.ndarray]
    arch: str
    expected: np.ndarray
    """What came out, as bits."""


def kernel_jobs(folder: Path) -> tuple[list[KernelJob], list[str]]:
    """Returns the jobs of a folder, and the names of those whose op has no kernel of ours.

    Raises JobError for a folder of another form.
    """
    try:
        rows = json.loads((folder / INDEX).read_text(encoding="utf-8"))["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobError(f"{folder / INDEX}: expected an index of jobs under `results`, got: {error}") from error
    arrays = cache(lambda file: _arrays(folder / file))
    jobs, without = [], []
    for number, row in enumerate(rows):
        try:
            if row["op"] in KERNELS:
                jobs.append(_job(row, arrays))
            else:
                without.append(row["job"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise JobError(
                f"{folder / INDEX}: expected a job with op, formats and arrays in row {number}, "
                f"got one where {type(error).__name__} {error}; try its row"
            ) from error
    return jobs, without


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as archive:
            return dict(archive)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise JobError(f"{path}: expected an .npz of arrays, got: {error}; try the whole folder") from error


def _job(row: dict[str, Any], arrays: Callable[[str], dict[str, np.ndarray]]) -> KernelJob:
    kernel, out = row["op"], arrays(row["file"])[row["out"]]
    inputs = list(_inputs(row, arrays))
    if row["encoding"] == "delta16":
        out = np.cumsum(out, dtype=np.uint16).reshape(inputs[0].shape)
    source, target = (FORMATS[row[name].lower()] for name in ("in_format", "out_format"))
    descs = [TensorDesc(image.shape, *source, "tile", "dram") for image in inputs]
    result = TensorDesc(out.shape, *target, "tile", "dram")
    params, numerics = (
        _params(kernel, row["args"], inputs[0].ndim),
        _numerics(kernel, row["args"], tuple(descs), target[1]),
    )
    places = tuple(range(len(inputs)))
    operation = Operation(kernel, places, (len(inputs),), params, numerics)
    program = Program(row["job"], (*descs, result), places, (len(inputs),), (operation,))
    return KernelJob(
        row["job"], _kind(kernel, source[0]), operation, program, dict(enumerate(inputs)), row["arch"], out
    )


def _inputs(row: dict[str, Any], arrays: Callable[[str], dict[str, np.ndarray]]) -> Iterator[np.ndarray]:
    """Images of what went in."""
    for name, shape in zip(row["inputs"], row["shapes"], strict=True):
        if name.startswith("all "):
            yield widened(_canonical(np.arange(1 << 16, dtype=np.uint16).reshape(shape)))
        else:
            bits = arrays("inputs.npz")[name]
            yield widened(_canonical(bits)) if bits.dtype == np.uint16 else bits.view(np.float32)


def _canonical(patterns: np.ndarray) -> np.ndarray:
    """bfloat16 as it arrives on the device: the host makes one NaN of all."""
    return np.where((patterns & 0x7FFF) > 0x7F80, np.uint16(0x7FC0), patterns)


def _kind(kernel: str, element_type: str) -> str:
    """The kind of kernel that a job's result is counted under."""
    params = KERNELS[kernel].params
    if params is EltwiseParams:
        return kernel if kernel == "typecast" else f"elementwise {element_type}"
    return {"matmul": "product", "layer_norm": "norm", "rms_norm": "norm"}.get(kernel, kernel)


def _params(kernel: str, arguments: dict[str, Any], rank: int) -> Params:
    cls = KERNELS[kernel].params
    if cls is EltwiseParams:
        return EltwiseParams((1.0,) if str(arguments.get("variant", "")).lower() == "tanh" else ())
    if cls is MatmulParams:
        return MatmulParams()
    if cls is ReduceParams:
        dim = arguments["dim"]
        return ReduceParams(tuple(d % rank for d in ([dim] if isinstance(dim, int) else dim)), keep_dim=True)
    if cls is SoftmaxParams:
        return SoftmaxParams(int(arguments.get("dim", -1)), bool(arguments.get("numeric_stable", False)))
    if cls is NormParams:
        return NormParams(float(arguments.get("epsilon", EPSILON)))
    raise ValueError(f"expected an op whose parameters are known, got {kernel}")


def _numerics(kernel: str, arguments: dict[str, Any], inputs: tuple[TensorDesc, ...], target: str) -> Numerics:
    """What the arguments ask for, and where they are silent what ttnn takes."""
    usual = ttnn_numerics(kernel, [desc.data_format for desc in inputs], target, inputs[0].shape[-1])
    wide, fidelity = arguments.get("fp32_dest_acc"), arguments.get("fidelity")
    if fidelity is None and wide is None:
        return usual
    chosen = usual.dst_format == "Float32" if wide is None else wide
    dst = "Float32" if chosen else "Float16_b"
    block = usual.k_block if arguments.get("packer_l1_acc") else 0
    return Numerics(fidelity or usual.fidelity, dst, block, dst, usual.math_approx)
