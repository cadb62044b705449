"""The line of a netlist that an error is about."""

from __future__ import annotations

import pytest

from opscope.compiler.buda.netlist.lines import with_line

TEXT = """\
devices:
  arch: grayskull
queues:
  x: {input: HOST, type: queue}
  x.y.bias : {input: HOST}
graphs:
  fwd_0:
    target_device: 0
    inputs_op:
      type: add
      inputs: [x, x]
    mm.0: {type: matmul, inputs: [x, x.y.bias]}
fused_ops:
  0:
    schedules:
      -
        - mul: {type: multiply, inputs: [input0, input1]}
"""


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("graphs.fwd_0.inputs_op.inputs: expected a queue, got 'z'", 9),
        ("graphs.fwd_0.mm.0: expected free cores", 12),
        ("mm.0.attributes.z: expected 1, got 2", 12),
        ("queues.x: expected an address", 4),
        ("queues.x.y.bias.dram: expected an address", 5),
        ("graphs.fwd_0.target_device: expected a chip", 7),
        ("fused_ops.0.mul.type: expected add, got 'wobble'", 17),
        ("devices.arch: expected a board", 2),
        ("netlist: expected YAML, got: x: y", 0),
    ],
)
def test_an_error_has_the_line_of_what_it_names(message: str, line: int) -> None:
    assert with_line(message, TEXT) == (f"line {line}: {message}" if line else message)
