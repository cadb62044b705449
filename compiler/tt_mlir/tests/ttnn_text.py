"""Small TTNN modules as tt-mlir prints them, for tests, and their results on the simulator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tt_mlir.program import tt_mlir_program
from opscope.simulator.api import Device

DEVICE = '%device = "ttnn.get_device"() <{mesh_offset = #ttnn<mesh_offset 0x0>, mesh_shape = #ttnn<mesh_shape 1x1>}>'
WORDS = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "int32": "si32",
    "uint32": "ui32",
    "uint16": "ui16",
    "uint8": "ui8",
}
CONFIG = "compute_config = #ttnn.device_compute_kernel_config<math_fidelity = hifi4, fp32_dest_acc_en = true>"


def kind(shape: Sequence[int], element: str = "f32") -> str:
    """A tensor of the device, in tiles, or row-major where it holds bytes."""
    dims = [f"d{n}" for n in range(max(len(shape), 1))]
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    inner = element.replace("ui", "u")
    memref = f"memref<{-(-rows // 32)}x{-(-columns // 32)}x!ttcore.tile<32x32, {inner}>"
    if element == "ui8":
        memref = f"memref<{rows}x{columns}x{element}"
    layout = (
        f"#ttnn.ttnn_layout<({', '.join(dims)}) -> ({dims[0]}, {dims[-1]}), <1x1>, "
        f"{memref}, #ttnn.buffer_type<dram>>, <interleaved>>"
    )
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}, {layout}>"


def function(
    name: str, body: str, inputs: Sequence[str], results: Sequence[str], returned: str, *, private: bool = False
) -> str:
    """One function: its arguments are %arg0, %arg1 and so on."""
    arguments = ", ".join(f"%arg{n}: {of}" for n, of in enumerate(inputs))
    head = "func.func private" if private else "func.func"
    return (
        f"      {head} @{name}({arguments}) -> ({', '.join(results)}) {{\n"
        f"        {DEVICE} : () -> !ttnn.device\n        {body}\n"
        f"        return {returned} : {', '.join(results)}\n      }}\n"
    )


def module(*functions: str) -> str:
    """The text of an executable with these functions."""
    return "module {\n  ttcore.device_module {\n    builtin.module {\n" + "".join(functions) + "    }\n  }\n}\n"


def one_op(op: str, attributes: str, inputs: Sequence[str], results: Sequence[str], *, device: bool = False) -> str:
    """A module of one op; with `device` it takes the device as its last operand."""
    operands = [*(f"%arg{n}" for n in range(len(inputs))), *(["%device"] if device else [])]
    kinds = [*inputs, *(["!ttnn.device"] if device else [])]
    names = [f"%r{n}" for n in range(len(results))]
    dictionary = f" <{{{attributes}}}>" if attributes else ""
    signature = results[0] if len(results) == 1 else f"({', '.join(results)})"
    body = f'{", ".join(names)} = "{op}"({", ".join(operands)}){dictionary} : ({", ".join(kinds)}) -> {signature}'
    return module(function("main", body, inputs, results, ", ".join(names)))


def run_text(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a module on an n150."""
    device = Device("n150")
    return list(device.load_decoded(tt_mlir_program(text, load_board("n150")).binary).run(arrays).outputs)


def run_op(
    op: str,
    attributes: str,
    arrays: Sequence[np.ndarray],
    results: Sequence[tuple[Sequence[int], str]],
    *,
    device: bool = False,
) -> list[np.ndarray]:
    """The results of one op for these arrays."""
    inputs = [kind(array.shape, WORDS[array.dtype.name]) for array in arrays]
    return run_text(one_op(op, attributes, inputs, [kind(*result) for result in results], device=device), arrays)
