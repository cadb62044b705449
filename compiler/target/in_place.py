"""Which operations write into the buffer of an operand, as tt-metal's cache writes do.

A program says it by what follows: the cache is freed right after the write, so that nothing reads what it held. Its
buffer then becomes the result's. Where something still reads the old cache, the write is to a copy.
"""

from __future__ import annotations

from itertools import takewhile

from opscope.compiler.target.fused_params import CacheParams
from opscope.compiler.target.program import Operation, Program


def writes_in_place(op: Operation, program: Program) -> bool:
    """Whether the result of `op`, an operation of `program`, lies where its first operand lay."""
    if not isinstance(op.params, CacheParams):
        return False
    cache, result = (program.tensors[t] for t in (op.inputs[0], op.outputs[0]))
    if cache != result or op.inputs[0] in program.inputs:
        return False
    start = next(i for i, each in enumerate(program.operations) if each.outputs == op.outputs)
    freed = takewhile(lambda each: each.kernel == "deallocate", program.operations[start + 1 :])
    return any(op.inputs[0] in each.inputs for each in freed)
