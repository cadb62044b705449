"""Runs recorded jobs of real kernels on the simulator, and says how many of the bits are the same.

`python -m ci.benchmarks.real_kernels FOLDER` takes any folder of that form and ends with 2 for another one.
`index.json` names for each job the op, its arguments, number formats, shapes, the arrays that went in and the one that
came out. Bits are uint16 of bfloat16 or uint32 of float32, of block floats as float32; `delta16` are differences of
neighbours.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.page import Page
from opscope.compiler.target.formats import FORMATS as NUMBER_FORMATS
from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.fused_params import NormParams, SoftmaxParams
from opscope.compiler.target.numerics import BLOCKED, partial_results, ttnn_numerics
from opscope.compiler.target.product_blocks import step_of
from opscope.compiler.target.program import (
    Conv2dParams,
    EltwiseParams,
    MatmulParams,
    Numerics,
    Operation,
    Params,
    Program,
    ReduceParams,
    TensorDesc,
)
from opscope.compiler.target.rounding import bits
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.arithmetic import Arithmetic
from opscope.simulator.images import is_held, widened
from opscope.simulator.kernels import KERNELS
from opscope.simulator.operation_run import PreparedOperation
from opscope.simulator.real_kernels import cause

INDEX = "index.json"
KINDS = {"matmul": "product", "linear": "product"} | dict.fromkeys(
    ("layer_norm", "rms_norm", "batch_norm_inference"), "norm"
)
"""Kernel -> the kind under which it is counted, where that is not its name."""
GRID = (10, 13)
"""Rows and columns of cores that ttnn had on ttsim."""
EPSILON = 1e-12
"""Of ttnn's norms, where none is given."""
_SPELLED = (
    (("bf16", "bfloat16"), ("bf16", "Float16_b")),
    (("f32", "fp32", "float32"), ("f32", "Float32")),
    (("bfp8", "bfp8_b", "bfloat8_b"), ("bf16", "Bfp8_b")),
    (("bfp4", "bfp4_b", "bfloat4_b"), ("bf16", "Bfp4_b")),
    (("i32", "int32"), ("i32", "Int32")),
    (("u32", "ui32", "uint32"), ("ui32", "UInt32")),
    (("u16", "ui16", "uint16"), ("ui16", "UInt16")),
    (("u8", "ui8", "uint8"), ("ui8", "UInt8")),
)
FORMATS = {name: formats for names, formats in _SPELLED for name in names}
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
    sources = [FORMATS[name.lower()] for name in row.get("in_formats", [row["in_format"]] * len(row["inputs"]))]
    inputs = list(_inputs(row, arrays, sources))
    if row["encoding"] == "delta16":
        out = np.cumsum(out, dtype=np.uint16).reshape(inputs[0].shape)
    descs = [TensorDesc(image.shape, *source, "tile", "dram") for image, source in zip(inputs, sources, strict=True)]
    result = TensorDesc(out.shape, *FORMATS[row["out_format"].lower()], "tile", "dram")
    params = _params(kernel, row["args"], [image.shape for image in inputs])
    numerics = _numerics(kernel, row["args"], params, tuple(descs), result)
    places = tuple(range(len(inputs)))
    operation = Operation(kernel, places, (len(inputs),), params, numerics)
    program = Program(row["job"], (*descs, result), places, (len(inputs),), (operation,))
    return KernelJob(
        row["job"], _kind(kernel, sources[0][0]), operation, program, dict(enumerate(inputs)), row["arch"], out
    )


def _inputs(
    row: dict[str, Any], arrays: Callable[[str], dict[str, np.ndarray]], sources: Sequence[tuple[str, str]]
) -> Iterator[np.ndarray]:
    """Images of what went in."""
    for name, shape, (element_type, data_format) in zip(row["inputs"], row["shapes"], sources, strict=True):
        if name.startswith("all "):
            yield widened(_canonical(np.arange(1 << 16, dtype=np.uint16).reshape(shape)))
            continue
        given = arrays("inputs.npz")[name]
        if not NUMBER_FORMATS[data_format].is_float:
            yield given.view(host_dtype(element_type))
        else:
            yield widened(_canonical(given)) if given.dtype == np.uint16 else given.view(np.float32)


def _canonical(patterns: np.ndarray) -> np.ndarray:
    """bfloat16 as it arrives on the device: the host makes one NaN of all."""
    return np.where((patterns & 0x7FFF) > 0x7F80, np.uint16(0x7FC0), patterns)


def _kind(kernel: str, element_type: str) -> str:
    """The kind of kernel that a job's result is counted under."""
    params = KERNELS[kernel].params
    if params is EltwiseParams:
        return kernel if kernel == "typecast" else f"elementwise {element_type}"
    return KINDS.get(kernel, kernel)


def _params(kernel: str, arguments: dict[str, Any], shapes: list[tuple[int, ...]]) -> Params:
    cls = KERNELS[kernel].params
    if cls is EltwiseParams:
        by_tanh = str(arguments.get("variant", "")).lower() == "tanh"
        return EltwiseParams(tuple(arguments.get("scalars", (1.0,) if by_tanh else ())))
    if cls is MatmulParams:
        names = ("transpose_a", "transpose_b", "activation")
        return MatmulParams(**{name: arguments[name] for name in names if name in arguments})
    if cls is Conv2dParams:  # as large a result as the image
        high, wide = (side // 2 for side in shapes[1][:2])
        return Conv2dParams((1, 1), (high, high, wide, wide), (1, 1))
    if cls is ReduceParams:
        dim, rank = arguments["dim"], len(shapes[0])
        return ReduceParams(tuple(d % rank for d in ([dim] if isinstance(dim, int) else dim)), keep_dim=True)
    if cls is SoftmaxParams:
        return SoftmaxParams(int(arguments.get("dim", -1)), bool(arguments.get("numeric_stable", True)))
    if cls is NormParams:
        return NormParams(float(arguments.get("epsilon", EPSILON)))
    raise ValueError(f"expected an op whose parameters are known, got {kernel}")


def _numerics(
    kernel: str, arguments: dict[str, Any], params: Params, inputs: tuple[TensorDesc, ...], result: TensorDesc
) -> Numerics:
    """What the arguments ask for, and where they are silent what ttnn takes."""
    block = _block(params, inputs, result) if isinstance(params, MatmulParams) and kernel in BLOCKED else 0
    usual = ttnn_numerics(kernel, [desc.data_format for desc in inputs], result.data_format, block)
    wide, fidelity = arguments.get("fp32_dest_acc"), arguments.get("fidelity")
    if fidelity is None and wide is None:
        return usual
    chosen = usual.dst_format == "Float32" if wide is None else wide
    dst = "Float32" if chosen else "Float16_b"
    in_l1 = bool(arguments.get("packer_l1_acc"))
    between = partial_results(dst, result.data_format, in_l1=in_l1)
    matters = in_l1 or NUMBER_FORMATS[between].kind == "block"
    return Numerics(fidelity or usual.fidelity, dst, block if matters else 0, between)


def _block(params: MatmulParams, inputs: tuple[TensorDesc, ...], result: TensorDesc) -> int:
    """Tiles of the inner dim that a product adds up in L1."""
    profile = replace(load_board("p150").ttnn, grid=GRID)
    return step_of(params, inputs[0], inputs[1], result, Numerics(), profile)


ENOUGH = 0.99
"""Share of bit-equal values from which on a job counts as the same."""


@dataclass(frozen=True)
class Score:
    """How one job of ours compares with the real one."""

    job: KernelJob
    equal: float
    """Share of values whose bits are the same."""
    ordinary: float
    """The same among values whose operands and results are finite and no denormals."""
    ulp: float
    """The largest difference among those, in units in the last place of the result's format; of the real result."""
    worst: str
    """Operands, the real result and ours, where values differ."""


def score(job: KernelJob, *, exact_order: bool = True) -> Score:
    """Runs a job and compares."""
    arithmetic = Arithmetic(job.arch, exact_order)
    with np.errstate(all="ignore"):
        (image,) = PreparedOperation(job.operation, job.program, arithmetic).run(job.values)
    desc = job.program.tensors[job.operation.outputs[0]]
    if is_held(image, desc):
        image = widened(image)
    if image.dtype.kind != "f":
        same = image.astype(job.expected.dtype) == job.expected
        return Score(job, float(same.mean()), float(same.mean()), 0.0 if same.all() else float("nan"), "")
    real = widened(job.expected) if job.expected.dtype == np.uint16 else job.expected.view(np.float32)
    image = np.broadcast_to(image, real.shape)
    same = bits(image) == bits(real)
    usual = _ordinary(real) & np.broadcast_to(_usual_operands(job), real.shape)
    step = 16 if desc.data_format != "Float32" else 0
    apart = np.abs(_ordered(image) - _ordered(real)) >> step
    ulp = float(apart[usual].max()) if usual.any() else 0.0
    return Score(
        job, float(same.mean()), float(same[usual].mean()) if usual.any() else 1.0, ulp, _worst(job, image, real, same)
    )


def _ordinary(x: np.ndarray) -> np.ndarray:
    return np.isfinite(x) & ((np.abs(x) >= np.float32(2.0**-126)) | (x == 0))


def _usual_operands(job: KernelJob) -> np.ndarray:
    """Where all operands of an elementwise job are ordinary; of others everywhere."""
    if not job.kind.startswith(("elementwise", "typecast")):
        return np.array(True)
    return np.logical_and.reduce(np.broadcast_arrays(*(_ordinary(value) for value in job.values.values())))


def _ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats, one apart where these are neighbours."""
    pattern = bits(x).astype(np.int64)
    return np.where(pattern >> 31, -(pattern & 0x7FFFFFFF), pattern)


def _worst(job: KernelJob, image: np.ndarray, real: np.ndarray, same: np.ndarray) -> str:
    """The first value that differs, as text."""
    if same.all():
        return ""
    place = np.unravel_index(int(np.argmin(same)), same.shape)
    operands = ", ".join(f"{float(value[place]):.9g}" for value in job.values.values() if value.shape == real.shape)
    return f"{operands + ': ' if operands else ''}{float(real[place]):.9g}, here {float(image[place]):.9g}"


def cause_of(job: KernelJob) -> str:
    """Returns the known rules by which a job's results may differ."""
    formats = {job.program.tensors[tensor].data_format for tensor in (*job.operation.inputs, *job.operation.outputs)}
    return "; ".join(filter(None, (cause(job.operation.kernel, name) for name in sorted(formats))))


def report(jobs: Sequence[KernelJob], without: Sequence[str], *, exact_order: bool) -> dict[str, Any]:
    """Returns every score, and by kind how many jobs are the same, as JSON."""
    scores = [score(job, exact_order=exact_order) for job in jobs]
    kinds: dict[str, dict[str, Any]] = {}
    for each in scores:
        kind = kinds.setdefault(each.job.kind, {"jobs": 0, "same": 0, "equal": []})
        kind["jobs"] += 1
        kind["same"] += each.equal >= ENOUGH
        kind["equal"].append(each.equal)
    for kind in kinds.values():
        kind["equal"] = float(np.mean(kind["equal"]))
    return {
        "order": "exact" if exact_order else "fast",
        "jobs": [
            {
                "job": each.job.name,
                "kind": each.job.kind,
                "equal": each.equal,
                "ordinary": each.ordinary,
                "max_ulp": each.ulp,
                "first_difference": each.worst,
                "cause": "" if each.equal == 1 else cause_of(each.job),
            }
            for each in scores
        ],
        "kinds": dict(sorted(kinds.items())),
        "without_kernel": list(without),
    }


def show(document: dict[str, Any]) -> None:
    """Prints a report as tables."""
    page = Page()
    columns = [("job", "left"), ("kind", "left"), *((name, "right") for name in ("equal", "ordinary", "max ulp"))]
    columns += [("first difference", "left"), ("cause", "left")]
    lines = [
        (
            each["job"],
            each["kind"],
            f"{100 * each['equal']:.2f} %",
            f"{100 * each['ordinary']:.2f} %",
            f"{each['max_ulp']:,.0f}",
            each["first_difference"],
            each["cause"],
        )
        for each in document["jobs"]
    ]
    page.table(columns, lines, f"Jobs, {document['order']} order", spare=("first difference", "kind", "cause"))
    columns = [("kind", "left"), *((name, "right") for name in ("jobs", "same", "mean equal"))]
    kinds = document["kinds"].items()
    page.table(
        columns,
        [(name, str(kind["jobs"]), str(kind["same"]), f"{100 * kind['equal']:.1f} %") for name, kind in kinds],
        f"Jobs with {ENOUGH:.0%} of values equal",
    )
    if document["without_kernel"]:
        page.prose(f"no kernel of that name here: {', '.join(document['without_kernel'])}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the scores of a folder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="real_kernels", description="Compare with recorded runs of real kernels.")
    parser.add_argument("folder", type=Path, help="folder with index.json and its .npz files")
    parser.add_argument("--fast", action="store_true", help="add products as sweeps do, not in the unit's order")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        document = report(*kernel_jobs(options.folder), exact_order=not options.fast)
    except JobError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(document))
    else:
        show(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
