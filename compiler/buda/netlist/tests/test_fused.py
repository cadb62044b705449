"""Fused ops: read, checked against the limits of a core, and run as their steps one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler.buda.netlist.check import check
from opscope.compiler.buda.netlist.emit import to_yaml
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary
from opscope.simulator.api import Device

QUEUE = "entries: 1, grid_size: [1, 1], t: 1, mblock: [4, 2], ublock: [1, 2], df: Float16_b, target_device: 0"
OP = (
    "t: 1, mblock: [4, 2], ublock: [1, 2], in_df: [Float16_b, Float16_b], out_df: Float16_b, "
    "intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi4, attributes: {fused_op_id: NUMBER}"
)
STEPS = """[[{add.0: {type: add, inputs: [input0, input1], output: dest}},
 {gelu.0: {type: gelu, inputs: [dest], output: intermed0}},
 {mul.0: {type: multiply, inputs: [intermed0, input1], output: output}}]]"""


def netlist(steps: str = STEPS, number: int = 0) -> str:
    return f"""
devices: {{arch: wormhole_b0}}
queues:
  x: {{input: HOST, type: queue, loc: host, host: [[0, 0]], {QUEUE}}}
  y: {{input: HOST, type: queue, loc: host, host: [[0, 65536]], {QUEUE}}}
  z: {{input: f, type: queue, loc: host, host: [[0, 131072]], {QUEUE}}}
graphs:
  fwd_0_0_temporal_epoch_0:
    target_device: 0
    input_count: 1
    f: {{type: fused_op, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x, y], {OP.replace("NUMBER", str(number))}}}
programs:
  - run_fwd_0:
    - execute: {{graph_name: fwd_0_0_temporal_epoch_0, queue_settings: {{}}}}
fused_ops:
  0: {{inputs: 2, intermediates: 1, schedules: {steps}}}
"""


def test_a_fused_op_is_its_steps() -> None:
    import jax

    parsed = parse(netlist())
    assert parse(to_yaml(parsed)) == parsed
    program = to_binary(parsed)
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((1, 128, 128)).astype(np.float32) for name in "xy"}
    executable = Device("n150").load(binary.write(program.binary))
    (out,) = executable.run([arrays[name] for name in program.graph.sources], per_core=True).outputs
    golden = np.asarray(jax.nn.gelu(arrays["x"] + arrays["y"], approximate=False) * arrays["y"])
    assert np.linalg.norm(out - golden) / np.linalg.norm(golden) < 0.01
    (alone,) = executable.run([arrays[name] for name in program.graph.sources]).outputs
    np.testing.assert_array_equal(out, alone)


BAD = {
    "an unknown id": (netlist(number=7), r"fused_op_id: expected one of fused_ops \(0\), got 7"),
    "an unknown input": (netlist(STEPS.replace("input0", "input5")), "expected input0, input1 or dest, got 'input5'"),
    "Dst that holds nothing": (netlist(STEPS.replace("output: dest", "output: intermed0")), "expected Dst to hold"),
    "Dst into a maximum": (netlist(STEPS.replace("type: gelu", "type: maximum")), "a step that reads Dst, got maximum"),
    "no output": (netlist(STEPS.replace("output: output", "output: intermed0")), "the last step, and it alone"),
    "Dst that nobody reads": (
        netlist(STEPS.replace("inputs: [dest], output: intermed0", "inputs: [input0], output: intermed0")),
        "expected to read Dst once",
    ),
    "Dst second on Grayskull": (
        netlist(STEPS.replace("type: gelu, inputs: [dest]", "type: add, inputs: [input0, dest]")).replace(
            "wormhole_b0", "grayskull"
        ),
        "expected Dst as the first input on grayskull, got input 1",
    ),
    "a column first": (
        netlist(STEPS.replace("{type: add,", "{type: add, input_0_tms: [tile_broadcast: c],")),
        r"expected tile_broadcast\(c\) on input 1 of add, subtract or multiply, got input 0 of add",
    ),
    "a transpose inside": (
        netlist(STEPS.replace("{type: add,", "{type: add, input_0_tms: [transpose],")),
        "expected broadcasts inside a fused op, got transpose",
    ),
    "a buffer that is used up": (
        netlist(STEPS.replace("inputs: [dest], output: intermed0", "inputs: [dest], pop: [input1], output: intermed0")),
        "got 'input1'",
    ),
    "a buffer too many": (netlist(STEPS.replace("intermed0", "intermed3")), "or intermed0, got 'intermed3'"),
    "other blocks": (
        netlist(STEPS.replace("{type: add,", "{type: add, mblock: [2, 2],")),
        r"add.0.mblock: expected \[4, 2\] as f has, got \[2, 2\]",
    ),
    "an unknown key": (netlist(STEPS.replace("{type: add,", "{type: add, tipe: 1,")), "got 'tipe'; try type"),
    "TMs of no input": (
        netlist(STEPS.replace("{type: add,", "{type: add, input_5_tms: [transpose],")),
        "add.0: expected TMs of inputs 0 to 1, got input_5_tms",
    ),
    "a name for a number": (netlist().replace("  0: {inputs", "  zero: {inputs"), "whole numbers as keys, got 'zero'"),
    "a list of fused ops": (netlist().split("fused_ops:")[0] + "fused_ops: [1]", "fused_ops: expected a mapping"),
    "an unknown step": (netlist(STEPS.replace("type: gelu", "type: wobble")), "got 'wobble'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_fused_op_is_refused_in_one_line(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(CompilerInputError, match=message):
        check(parse(text))
