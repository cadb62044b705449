"""Calls of other functions of the module, choices of functions, and loops."""

from __future__ import annotations

import re

import numpy as np

from opscope.compiler.target.program import ControlParams, FullParams, TensorDesc
from opscope.compiler.tt_mlir.attributes import written
from opscope.compiler.tt_mlir.calls.call import Emit, emits


@emits("ttcore.load_cached")
def load_cached(emit: Emit) -> None:
    """Results of a function that is computed once."""
    emit.call("load_cached", emit.inputs, emit.results, ControlParams((emit.attributes["callee"],)))


_BOUND = re.compile(r"#ttcore\.loop_bound<(-?\d+)(?:, (\d+)(?: : i\d+)?)?>")
"""A number, or the operand that holds it."""


@emits("ttcore.case")
def case(emit: Emit) -> None:
    """The function of that number, the last one if there is none."""
    emit.call("case", emit.inputs, emit.results, ControlParams(emit.attributes["branch_programs"]))


def _bound(emit: Emit, name: str) -> int:
    """The tensor of a loop's first number, end or step."""
    text = written(emit.op.properties[name])
    emit.attributes.skip(name)  # read here: an operand's number is no value that attributes know
    match = _BOUND.fullmatch(text)
    emit.only(match is not None, f"expected a bound that is known, got {text}")
    assert match is not None
    if match[2] is not None:
        return emit.inputs[int(match[2])]
    number = emit.tensor(TensorDesc((), "i32", "Int32", "row_major", "system_memory"))
    emit.call("full", (), [number], FullParams((), np.int32(int(match[1])).tobytes()))
    return number


@emits("ttcore.while_loop")
def while_loop(emit: Emit) -> None:
    """A function over and over: while another one is not 0, or for each number of a range."""
    attributes, count = emit.attributes, emit.attributes["state_count"]
    every = tuple(range(len(emit.results)))
    emit.only(
        attributes["output_indices"] == every and count == len(every),
        f"expected results for all of {count} values that go round, got {attributes['output_indices']}",
    )
    body, condition = attributes["body_program"], attributes.get("condition_program")
    if condition is not None:
        emit.call("while", emit.inputs, emit.results, ControlParams((condition, body)))
        return
    bounds = [_bound(emit, name) for name in ("initial", "limit", "step")]
    emit.call("for", [*bounds, *emit.inputs], emit.results, ControlParams((body,)))
