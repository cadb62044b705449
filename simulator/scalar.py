"""Programs of scalars, which a kernel calls for every element, applied to whole arrays at once.

A body's ops are elementwise, so a value may have any shape instead of being a scalar; constants stay scalars. Values
are held as the Dst register holds them, in the format of their descriptions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opscope.compiler.target.program import ConstantParams, EltwiseParams, FullParams, Operation, Program
from opscope.simulator.arithmetic import PLAIN, Arithmetic
from opscope.simulator.images import pack
from opscope.simulator.kernels.registry import KERNELS, Call, Images, Kernel, keeps_bits


def applies_to_scalars(op: Operation) -> bool:
    """Whether a body may contain this operation: an elementwise kernel, or a constant."""
    return isinstance(op.params, EltwiseParams | FullParams | ConstantParams) and len(op.outputs) == 1


class Scalar:
    """A scalar program, ready to be applied. Raises KeyError for a kernel that the device has not."""

    def __init__(self, program: Program, arithmetic: Arithmetic = PLAIN) -> None:
        self.program = program
        self.steps = [_step(op, program, arithmetic) for op in program.operations]

    def __call__(self, *images: np.ndarray) -> Images:
        """Returns the images of the results; every argument is a scalar or has the shape of the whole array."""
        values = dict(zip(self.program.inputs, images, strict=True))
        for op, run in zip(self.program.operations, self.steps, strict=True):
            values[op.outputs[0]] = run([values[t] for t in op.inputs])
        return [values[t] for t in self.program.outputs]


def _step(op: Operation, program: Program, arithmetic: Arithmetic) -> Callable[[Images], np.ndarray]:
    kernel: Kernel = KERNELS[op.kernel]
    call = Call.of(op, program, arithmetic=arithmetic)
    desc = call.outputs[0]
    moved = kernel.unit == "move" and all(d.data_format == desc.data_format for d in call.inputs[:1])
    moved |= keeps_bits(kernel.name, call)
    dst = "Float32" if kernel.unit == "move" else op.numerics.dst_format

    def run(images: Images) -> np.ndarray:
        if op.kernel == "bitcast_convert":
            # Its result's shape is declared; here it is its operand's.
            shaped = _shaped(call, images[0].shape)
            value = np.asarray(kernel.function(images, shaped))
            return pack(value, shaped.outputs[0], moved=moved, dst_format=dst, arithmetic=arithmetic)
        value = np.asarray(kernel.function(images, call))
        return pack(value, desc, moved=moved, dst_format=dst, rounds=kernel.rounds, arithmetic=arithmetic)

    return run


def _shaped(call: Call, shape: tuple[int, ...]) -> Call:
    return replace(
        call,
        inputs=tuple(replace(d, shape=shape) for d in call.inputs),
        outputs=tuple(replace(d, shape=shape) for d in call.outputs),
    )
