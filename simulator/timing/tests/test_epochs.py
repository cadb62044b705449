"""Placed ops, epochs and switches: netlists whose cycles TT-Buda's authors measured, and plans cut by hand."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import pytest

from opscope.compiler.buda.netlist import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.target.plan import BlockPlan, EpochPlan, PlacedOp
from opscope.compiler.target.program import Binary, Numerics, Operation, Program, ReduceParams, TensorDesc
from opscope.compiler.target.program import SparseMatmulParams as Picker
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.device import Device
from opscope.simulator.placed import planned_operations
from opscope.simulator.profile import EpochCost, Profile
from opscope.simulator.timing.arch_constants import CONSTANTS
from opscope.simulator.timing.block_work import SparseTiles
from opscope.simulator.timing.epochs import epoch_costs, op_cycles, placed_costs
from opscope.simulator.timing.placed_work import busiest_share

NETLISTS = Path(__file__).parents[4] / "shared" / "data" / "netlists.zip"
needs_netlists = pytest.mark.skipif(not NETLISTS.exists(), reason=f"no netlists at {NETLISTS}")
GRAPHS = "verif__graph_tests__netlists__"
MEASURED = {
    f"{GRAPHS}netlist_encoder_grid": 35_500,
    f"{GRAPHS}wormhole_b0__netlist_encoder_grid": 59_462,
    f"{GRAPHS}blackhole__netlist_encoder_grid": 59_462,
    "verif__tm_tests__directed__bert_tiny_inference_hifi": 33_345,
    f"{GRAPHS}netlist_bert_base": 794_700,
}
"""Netlist -> cycles per input that its performance check expects of a card; bert_base: 1510 inputs/s at 1.2 GHz."""
BIG = f"{GRAPHS}netlist_bert_base"

TEXT = """
devices: {arch: wormhole_b0}
queues:
  x: {input: HOST, type: queue, entries: 4, grid_size: [1,1], t: 1, mblock: [4,4], ublock: [1,1], df: Float16_b, target_device: 0, loc: host, host: [0x0]}
  w: {input: HOST, type: ram, entries: 1, grid_size: [1,1], t: 1, mblock: [4,4], ublock: [1,1], df: Float16_b, target_device: 0, loc: dram, dram: [[2, 0x30000000]]}
  y: {input: copied, type: queue, entries: 4, grid_size: [1,1], t: 1, mblock: [2,1], ublock: [2,4], df: Float16_b, target_device: 0, loc: host, host: [0x100000]}
graphs:
  fwd_0:
    target_device: 0
    input_count: 2
    product: {type: matmul, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x, w], t: 1, mblock: [2, 1], ublock: [2, 4], buf_size_mb: 2, ublock_order: r, in_df: [Float16_b, Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, attributes: {m_k: 1, u_kt: 4}}
    copied: {type: exp, grid_loc: [0, 1], grid_size: [1, 1], inputs: [product], t: 1, mblock: [2, 1], ublock: [2, 4], buf_size_mb: 2, ublock_order: r, in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, untilize_output: true}
programs:
  - run:
    - var: [$p]
    - execute: {graph_name: fwd_0, queue_settings: {x: {prologue: false, epilogue: false, zero: false}, w: {prologue: PROLOGUE, epilogue: false, zero: false}}}
    - endprogram
"""  # noqa: E501


def compiled(tmp_path: Path, prologue: str = "true") -> Binary:
    path = tmp_path / "netlist.yaml"
    path.write_text(TEXT.replace("PROLOGUE", prologue), encoding="utf-8")
    return to_binary(parse.read(path)).binary


def costs_of(binary: Binary) -> tuple[EpochCost, ...]:
    system, program = load_board(binary.board), binary.programs[0]
    costs = placed_costs(program, planned_operations(binary.plan), system)
    return epoch_costs(binary.plan, program, costs, lambda op, within: system)


@needs_netlists
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == BIG else ()) for n in MEASURED])
def test_an_epoch_takes_what_a_card_took(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(NETLISTS) as archive:
        (member,) = (m for m in archive.namelist() if m.endswith(f"{name}.yaml"))
        archive.extract(member, tmp_path)
    epochs = costs_of(to_binary(parse.read(tmp_path / member)).binary)
    slowest = max(epoch.cycles for epoch in epochs)
    assert slowest == pytest.approx(MEASURED[name], rel=0.1)


def test_an_epoch_is_a_pipeline(tmp_path: Path) -> None:
    """The device counts the slowest op, not the sum: 16 tiles of exp at 1770 cycles."""
    binary = compiled(tmp_path)
    executable = Device("n150", profile="buda").load_decoded(binary)
    profile = executable.profile
    (epoch,) = profile.epochs
    by_name = {op.location: op for op in profile.ops}
    assert epoch.slowest == "copied"
    assert epoch.slowest_cycles == by_name["copied"].cycles > 16 * 1700
    assert epoch.dram_cycles == epoch.switch_cycles == 0
    assert profile.total_cycles == epoch.cycles == epoch.slowest_cycles + epoch.stall_cycles
    assert profile.total_cycles < sum(op.cycles for op in profile.ops)
    assert by_name["product"].cores == 1


def test_parameters_that_every_input_reads_again_busy_a_channel(tmp_path: Path) -> None:
    (again,) = costs_of(compiled(tmp_path, "false"))
    (kept,) = costs_of(compiled(tmp_path))
    system = load_board("n150")
    rate = system.dram_gb_per_s * system.dram_efficiency / system.clock_ghz / system.buda.dram_channels
    assert kept.dram_cycles == 0
    assert again.dram_cycles == pytest.approx(2 * 16 * 2080 / rate, abs=1)


def test_chips_of_one_epoch_work_at_the_same_time() -> None:
    parts = (
        EpochCost(0, 0, "a", 100, 10, 50, 5),
        EpochCost(0, 1, "b", 90, 0, 300, 0),
        EpochCost(1, 0, "c", 7, 0, 0, 0),
    )
    assert [part.cycles for part in parts] == [115, 300, 7]
    assert Profile((), 1.0, 0, 0, epochs=parts).total_cycles == 307


def test_a_switch_writes_and_reads(tmp_path: Path) -> None:
    binary = compiled(tmp_path)
    first, second = binary.plan.ops
    queue = dataclasses.replace(binary.plan.queues[1], name="between", source=first.name, tensor=_result(binary, first))
    plan = dataclasses.replace(
        binary.plan,
        epochs=(EpochPlan(0, 0, "forward", "fwd_0"), EpochPlan(1, 0, "forward", "fwd_1")),
        ops=(first, dataclasses.replace(second, epoch=1)),
        queues=(*binary.plan.queues, queue),
    )
    epochs = costs_of(dataclasses.replace(binary, plan=plan))
    system = load_board("n150")
    rate = system.dram_gb_per_s * system.dram_efficiency / system.clock_ghz
    for epoch in epochs:
        assert epoch.switch_cycles == pytest.approx(16 * 2080 / rate, abs=1)


def _result(binary: Binary, op: PlacedOp) -> int:
    return binary.programs[0].operations[op.operation].outputs[0]


def test_blocks_of_a_placed_op_decide_its_cycles(tmp_path: Path) -> None:
    binary = compiled(tmp_path)
    product = binary.plan.ops[0]

    def cycles(**changed: object) -> float:
        where = dataclasses.replace(product, **changed)
        program = binary.programs[0]
        return op_cycles(program.operations[where.operation], program, where, CONSTANTS["wormhole_b0"])

    whole = cycles()
    assert cycles(m_k=4, u_kt=1) > whole
    assert cycles(block=BlockPlan(1, 4, 4, 1, 1)) > whole
    assert cycles(block=BlockPlan(2, 1, 1, 2, 4)) >= whole
    assert cycles(m_k=4, u_kt=1, l1_acc=True) < cycles(m_k=4, u_kt=1)


@pytest.mark.parametrize(("dim", "per_tile"), [(1, (50, 80)), (2, (80, 100)), (0, (180, 340))])
def test_a_reduction_costs_the_tiles_that_it_reads(dim: int, per_tile: tuple[int, int]) -> None:
    whole, left = [8, 256, 256], [8, 256, 256]
    left[dim] = 1
    tensors = tuple(TensorDesc(tuple(s), "f32", "Bfp8_b", "tile", "dram") for s in (whole, left))
    op = Operation("sum", (0,), (1,), ReduceParams((dim,), True), Numerics("LoFi"))
    program = Program("main", tensors, (0,), (1,), (op,))
    rows, cols = (1 if dim == 1 else 8), (1 if dim == 2 else 8)
    t = 1 if dim == 0 else 8
    where = PlacedOp(
        "op", 0, 0, 0, 0, 0, (1, 1), False, "R", (1, 1), BlockPlan(t, rows, 1, 1, cols), 1, 8 if dim else 1, "r", ()
    )
    got = op_cycles(op, program, where, CONSTANTS["wormhole_b0"]) / (8 * 64)
    assert per_tile[0] < got < per_tile[1]


def test_the_busiest_cores_share_of_a_picker() -> None:
    """A 1x1 window with stride 1 over 16x16 pixels picks the diagonal of 8x8 tiles, four for each row of cores."""
    picker = Picker((16, 16), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    where = PlacedOp("op", 0, 0, 0, 0, 0, (2, 1), False, "R", (1, 1), BlockPlan(1, 2, 1, 2, 1), 4, 2, "r", ())
    assert busiest_share(picker, where) == SparseTiles(4, 2, 2)
    streamed = dataclasses.replace(where, block=BlockPlan(2, 1, 1, 2, 1))
    assert busiest_share(picker, streamed) == SparseTiles(4, 2, 2)
    narrow = dataclasses.replace(where, u_kt=1, m_k=8)
    assert busiest_share(picker, narrow) == SparseTiles(4, 4, 4)
