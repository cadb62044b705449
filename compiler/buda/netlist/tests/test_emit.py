"""A small plan as a netlist, word by word, with every number worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.balancer.tests.graphs import INPUT, fork, one_tap_convolution, shape, unary, z_pair
from opscope.compiler.buda.fuse_ops import fuse_ops
from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.buda.netlist.emit import netlist_of, op_line, to_yaml
from opscope.compiler.buda.netlist.model import Netlist
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_to_binary import QueueOptions, to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target.system_desc import load_board

TILE = 2080
"""Bytes of a tile of Float16_b with its header."""


@cache
def forked() -> BudaPlan:
    """(8x4) @ (4x12) in tiles, its exponential, and in a second epoch their sum and product; one core each."""
    return plan(fork(), budget_of("n150"), "MinimizeGrid", placer=PlacerOptions(epoch_breaks=("sum",)))


def netlist(planned: BudaPlan, **where: Any) -> Netlist:
    return netlist_of(planned, to_binary(planned, load_board("n150"), QueueOptions(**where)))


def test_an_op_reads_a_queue_of_what_another_epoch_made_and_the_op_itself_in_its_own() -> None:
    assert {op.name: op.inputs for op in netlist(forked()).ops.values()} == {
        "mm": ("x", "w"),
        "e": ("mm",),
        "sum": ("e2e_mm_0", "e2e_e_0"),
        "prod": ("sum", "e2e_e_0"),
    }


def test_what_is_cut_waits_in_a_queue_of_its_own_epoch() -> None:
    """Both ops run in one epoch; the exponential reads the product's queue, and the sum the product itself."""
    together = plan(fork(), budget_of("n150"), "MinimizeGrid")
    cut = netlist(replace(together, cuts=together.graph.operands("e")))
    assert {op.name: op.inputs for op in cut.ops.values()} == {
        "mm": ("x", "w"),
        "e": ("e2e_mm_0",),
        "sum": ("mm", "e"),
        "prod": ("sum", "e"),
    }


@pytest.mark.parametrize(("board", "tail"), [("e150", ""), ("n150", "_temporal_epoch_0")])
def test_a_netlist_line_by_line(board: str, tail: str) -> None:
    """Two tiles by one; the host's queues are one behind the other."""
    planned = plan(unary(1, 2), budget_of(board), "MinimizeGrid")
    text = to_yaml(netlist_of(planned, to_binary(planned, load_board(board))))
    queue = "grid_size: [1, 1], t: 1, mblock: [1, 2], ublock: [1, 1], ublock_order: r, tile_dim: [32, 32]"
    place = "df: Float16_b, target_device: 0, loc: host, host: [[0,"
    assert text.partition("programs:")[0].splitlines() == [
        "# exp",
        f"devices: {{arch: {planned.budget.arch}}}",
        "queues:",
        f"  x: {{input: HOST, type: queue, entries: 2, {queue}, {place} 0x0]]}}",
        f"  y: {{input: op, type: queue, entries: 2, {queue}, {place} 0x2080]]}}",
        "graphs:",
        f"  fwd_0_0{tail}:",
        "    target_device: 0",
        "    input_count: 1",
        "    op: {type: exp, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x], untilize_output: true, t: 1, "
        "mblock: [1, 1], ublock: [1, 2], buf_size_mb: 2, input_buf_min_size_tiles: [4], ublock_order: r, "
        "in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3}",
    ]


def test_a_gather_states_its_windows_and_encoding() -> None:
    """The diagonal of 8x8 tiles: the zero tile and the identity."""
    planned = plan(one_tap_convolution(), budget_of("n150"), "MinimizeGrid")
    gather, product = netlist(planned).ops.values()
    model = planned.choices["gather"].model
    assert gather.attributes == {
        "m_k": model.m_k,
        "u_kt": model.u_kt,
        "identity": True,
        "num_sparse_tiles": 2,
        "num_index_tiles": model.inputs[2].l1_size_tiles,
        "windows": {
            "size": [16, 16],
            "kernel": [1, 1],
            "stride": [1, 1],
            "padding": [[0, 0], [0, 0]],
            "dilation": [1, 1],
        },
    }
    assert (gather.type, product.type, set(product.attributes)) == ("matmul", "matmul", {"m_k", "u_kt"})


def test_ops_are_in_blocks_of_eight_tiles() -> None:
    """8 x 12 tiles are 2 x 6 blocks of 4 x 2. A product holds two blocks left and two rows of them right, 4 deep."""
    ops = netlist(forked()).ops
    tail = "out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3"
    blocks = "t: 1, mblock: [2, 6], ublock: [4, 2], buf_size_mb: 2"
    assert op_line(ops["mm"]) == (
        f"mm: {{type: matmul, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x, w], {blocks}, input_buf_min_size_tiles: "
        f"[32, 96], ublock_order: r, in_df: [Float16_b, Float16_b], {tail}, attributes: {{m_k: 1, u_kt: 4}}}}"
    )
    assert op_line(ops["prod"]) == (
        f"prod: {{type: multiply, grid_loc: [0, 1], grid_size: [1, 1], inputs: [sum, e2e_e_0], untilize_output: true, "
        f"{blocks}, input_buf_min_size_tiles: [16, 16], ublock_order: r, in_df: [Float16_b, Float16_b], {tail}}}"
    )


def test_a_program_runs_its_graphs_once_per_input_and_turns_the_pointers_of_the_hosts_queues() -> None:
    """Two entries wrap at four, so that full and empty differ; parameters stay, as does what epochs pass on."""
    text = to_yaml(netlist(forked()))
    still = "{prologue: false, epilogue: false, zero: false, rd_ptr_local: $c_zero, rd_ptr_global: $c_zero}"
    turns = still.replace("$c_zero", "$lptr_q0", 1).replace("$c_zero", "$gptr_q0", 1)
    first, second = (f"fwd_0_{number}_temporal_epoch_{number}" for number in (0, 1))
    assert text.partition("programs:\n")[2].splitlines() == [
        "  - run_fwd_0:",
        "    - param: [$p_loop_count]",
        "    - var: {$c_one: 1, $c_zero: 0, $c_microbatch_size: 1}",
        "    - staticvar: {$gptr_q0: 0, $lptr_q0: 0}",
        "    - loop: $p_loop_count",
        f"    - execute: {{graph_name: {first}, queue_settings: {{x: {turns}, w: {still}}}}}",
        f"    - execute: {{graph_name: {second}, queue_settings: {{e2e_mm_0: {still}, e2e_e_0: {still}}}}}",
        "    - varinst: [$gptr_q0, incwrap, $c_microbatch_size, 4]",
        "    - varinst: [$lptr_q0, incwrap, $c_microbatch_size, 4]",
        "    - endloop",
    ]


@pytest.mark.parametrize("host", [True, False])
def test_queues_say_who_writes_them_where_and_how_much(host: bool) -> None:
    queues = netlist(forked(), host_inputs=host, host_outputs=host).queues
    place = "host" if host else "dram"
    assert {q.name: (q.input, q.type, q.entries, q.mblock, q.loc) for q in queues.values()} == {
        "x": ("HOST", "queue", 2, (8, 4), place),
        "w": ("HOST", "ram", 1, (4, 12), "dram"),
        "e2e_mm_0": ("mm", "queue", 1, (8, 12), "dram"),
        "e2e_e_0": ("e", "queue", 1, (8, 12), "dram"),
        "y": ("prod", "queue", 2, (8, 12), place),
    }
    if host:  # one behind the other, each with both entries
        assert queues["x"].addresses == ((0, 0),)
        assert queues["y"].addresses == ((0, 2 * 8 * 4 * TILE),)


def test_the_host_sees_one_piece_and_cores_have_their_own() -> None:
    """(8x12) over 2 x 3 cores: 4 x 4 tiles each, and 4 x 4 of the parameter for each column of cores."""
    sizes = LegalizerOptions(overrides={"mm": OpOverride(Grid(2, 3), "n")})
    options = PlacerOptions(epoch_breaks=("sum",))
    queues = netlist(plan(fork(), budget_of("n150"), "MinimizeGrid", sizes, placer=options)).queues
    tiles = {q.name: tuple(q.mblock[axis] * q.ublock[axis] for axis in range(2)) for q in queues.values()}
    assert {name: (queues[name].grid_size, tiles[name]) for name in queues} == {
        "x": ((1, 1), (8, 4)),
        "w": ((1, 3), (4, 4)),
        "e2e_mm_0": ((2, 3), (4, 4)),
        "e2e_e_0": ((1, 1), (8, 12)),
        "y": ((1, 1), (8, 12)),
    }


def test_the_passes_of_a_training_step_run_once() -> None:
    builder = GraphBuilder("step")
    builder.source("x", INPUT, shape(2, 2))
    builder.op("there", OpSpec("exp"), [Operand("x")])
    builder.output("y", builder.op("back", OpSpec("exp", epoch_type="backward"), [Operand("there")]))
    programs = netlist(plan(builder.graph(), budget_of("n150"))).programs
    assert [program.name for program in programs] == ["run_fwd_0", "run_bwd_0"]
    assert [[name for name, _ in program.instructions] for program in programs] == [
        ["var", "staticvar", "execute", "varinst", "varinst"],
        ["var", "staticvar", "execute"],
    ]


def reading(text: str, spec: OpSpec) -> BudaGraph:
    builder = GraphBuilder("one")
    builder.source("x", NodeKind.INPUT, shape(2, 4, 3))
    builder.output("y", builder.op("op", spec, [Operand.parse(text)], elements=(3, 33, 97)))
    return builder.graph()


@pytest.mark.parametrize(
    ("text", "spec", "words"),
    [
        (
            "x | transpose",
            OpSpec("exp", approximate=True),
            "input_0_tms: [transpose], attributes: {approximate_mode: true, elements: [3, 33, 97]}",
        ),
        ("x | hslice(2) | broadcast(r, 3)", OpSpec("exp"), "input_0_tms: [{hslice: 2}, {broadcast: {r: 3}}], "),
        ("x | tile_broadcast(c)", OpSpec("abs"), "input_0_tms: [{tile_broadcast: c}], "),
        ("x | buda_unpad(1, 2)", OpSpec("abs"), "input_0_tms: [{buda_unpad: {rt: 1, ct: 2}}], "),
        ("x", OpSpec("nop", relu=True), "{relu_en: true, relu_threshold: 0.0, relu_mode: min, elements"),
        ("x", OpSpec("reduce", reduce_dim="z", reduce_type="max"), "attributes: {dim: z, type: max, z: 3, elements"),
        ("x", OpSpec("reduce", reduce_dim="r"), "attributes: {dim: r, type: sum, elements"),
    ],
)
def test_tms_and_attributes_have_tt_budas_names(text: str, spec: OpSpec, words: str) -> None:
    (op,) = netlist(plan(reading(text, spec), budget_of("n150"), "MinimizeGrid")).ops.values()
    assert words in op_line(op)


def test_steps_of_a_fused_op_tell_their_elements_but_for_the_last_which_has_the_ops() -> None:
    builder = GraphBuilder("chain")
    builder.source("x", NodeKind.INPUT, shape(2, 2), elements=(1, 33, 50))
    builder.op("first", OpSpec("tanh", approximate=True), [Operand("x")], elements=(1, 33, 50))
    builder.output("y", builder.op("second", OpSpec("abs"), [Operand("first")], elements=(1, 33, 50)))
    made = netlist(plan(fuse_ops(builder.graph(), "wormhole_b0"), budget_of("n150"), "MinimizeGrid"))
    ((steps,),) = (fused.schedules for fused in made.fused_ops.values())
    assert [(step.name, step.inputs, step.output, step.attributes) for step in steps] == [
        ("tanh.0", ("input0",), "dest", {"approximate_mode": True, "elements": [1, 33, 50]}),
        ("abs.1", ("dest",), "output", {}),
    ]
    assert [(step.mblock, step.ublock) for step in steps] == [((1, 1), (2, 2))] * 2
    (op,) = made.ops.values()
    assert op.attributes == {"fused_op_id": 0, "elements": [1, 33, 50]}


def test_what_is_cut_in_time_says_so() -> None:
    ops = netlist(plan(z_pair(), budget_of("n150"), "MaximizeTMinimizeGrid")).ops
    assert {op.attributes["t_stream"]["dir"] for op in ops.values()} == {"R"}
    for op in ops.values():
        factor = op.attributes["t_stream"]["factor"]
        assert op.t == 4 * factor[0] * factor[1]
        assert op.mblock[0] * op.ublock[0] * factor[0] * op.grid_size[0] == 8
