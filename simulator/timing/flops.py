"""Floating point operations of an op, as a roofline counts them: two for a product that is added up, else one for an
element of a result.
"""

from __future__ import annotations

import math

from opscope.compiler.target.program import Conv2dParams, Conv3dParams, MatmulParams, Operation, Program


def flops_of(op: Operation, program: Program) -> float:
    """Returns the operations of one run of an op."""
    elements = sum(math.prod(program.tensors[tensor].shape) for tensor in op.outputs)
    operands = [program.tensors[tensor].shape for tensor in op.inputs]
    match op.params:
        case MatmulParams() if op.kernel != "depthwise" and len(operands[0]) > 1:
            return 2.0 * elements * operands[0][-2 if op.params.transpose_a else -1]
        case Conv2dParams() | Conv3dParams():
            return 2.0 * elements * math.prod(operands[1][:-1])
    return float(elements)
