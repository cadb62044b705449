"""The cycle model against measured silicon (CSV files beside the checkout; skipped where they are absent)."""

from __future__ import annotations

import csv
import dataclasses
import statistics
from pathlib import Path

import numpy as np
import pytest

from opscope.compiler.target.program import EltwiseParams, MatmulParams, Numerics, ReduceParams
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.profile import OpCost
from opscope.simulator.tests.programs import one_kernel, run_result
from opscope.simulator.timing.operation import operation_cost

SILICON = Path(__file__).parents[3] / "shared" / "data" / "silicon"
needs_silicon = pytest.mark.skipif(not SILICON.exists(), reason=f"no measured silicon figures at {SILICON}")


def cost(kernel: str, params: object, shapes: list[tuple[int, ...]], out: tuple[int, ...], **options: object) -> OpCost:
    fmt = options.pop("data_format", "Float16_b")
    board = str(options.pop("board", "n150"))
    made = one_kernel(
        kernel,
        params,
        [(s, "bf16") for s in shapes],
        (out, "bf16"),
        options.pop("numerics", Numerics()),
        board=board,
        data_format=fmt,
    )
    program, system = made.programs[0], load_board(board)
    return operation_cost(program.operations[len(shapes)], program, system, system.ttnn)


@needs_silicon
@pytest.mark.parametrize(
    ("kernel", "file", "low", "high"),
    [
        ("exp", "exp", 0.9, 1.1),
        ("sqrt", "sqrt", 0.9, 1.1),
        ("reciprocal", "reciprocal", 0.9, 1.1),
        ("log", "log", 0.9, 1.1),
        ("tanh", "tanh", 0.8, 1.25),
        ("abs", "abs", 0.8, 1.25),
        ("add", "add", 0.6, 1.6),
        ("multiply", "multiply", 0.6, 1.6),
        ("maximum", "maximum", 0.8, 1.25),
    ],
)
def test_one_core_takes_the_measured_cycles_per_tile(kernel: str, file: str, low: float, high: float) -> None:
    with (SILICON / "ops" / "wormhole_b0" / f"{file}-op-performance.csv").open(encoding="utf-8-sig") as handle:
        rows = [r for r in csv.DictReader(handle) if r["output_df"] in ("Float16_b", "Bfp8_b")]
    ratios = []
    system = load_board("n150")
    one_core = dataclasses.replace(system, ttnn=dataclasses.replace(system.ttnn, grid=(1, 1)))
    for row in rows:
        tiles = int(np.prod([int(row[f"output_{d}"]) for d in ("mb_r", "mb_c", "ub_r", "ub_c")]))
        inputs = int(row["last-input-idx-recorded"]) - int(row["first-input-idx-recorded"]) + 1
        shapes = [(32, 32 * tiles)] * (2 if "input1_df" in row else 1)
        operands = [(s, "bf16") for s in shapes]
        made = one_kernel(kernel, EltwiseParams(), operands, (shapes[0], "bf16"), data_format=row["output_df"])
        program = made.programs[0]
        got = operation_cost(program.operations[len(shapes)], program, one_core, one_core.ttnn)
        ratios.append(got.compute_cycles * inputs / float(row["total-runtime"]))
    assert len(ratios) > 10
    assert low < statistics.median(ratios) < high, statistics.quantiles(ratios)


def test_fidelity_and_size_cost_cycles() -> None:
    small = [
        cost("matmul", MatmulParams(), [(512, 512)] * 2, (512, 512), numerics=Numerics(f)).compute_cycles
        for f in ("LoFi", "HiFi2", "HiFi3", "HiFi4")
    ]
    assert small == sorted(small)
    # At least 64 cycles for a product of tiles in four phases: 16 x 16 tiles over 64 cores, 16 deep.
    assert 64 * 4 * 16 < small[3] < 1.5 * 64 * 4 * 16
    big = cost("matmul", MatmulParams(), [(1024, 1024)] * 2, (1024, 1024), numerics=Numerics("LoFi"))
    assert 7 * small[0] < big.compute_cycles < 8.01 * small[0]
    assert big.cores == 64


def test_elementwise_streams() -> None:
    got = cost("add", EltwiseParams(), [(4096, 4096)] * 2, (4096, 4096))
    longest = max(got.compute_cycles, got.transfer_cycles)
    assert longest <= got.cycles - got.launch_cycles <= 1.05 * longest
    assert got.dram_bytes == 3 * 4096 * 4096 * 2
    assert got.transfer_cycles >= got.dram_bytes / 288
    reduced = cost("sum", ReduceParams((1,)), [(4096, 4096)], (4096,))
    assert reduced.cycles < got.cycles


def test_a_profile_adds_up() -> None:
    x = np.ones((64, 64), np.float32)
    profile = run_result("exp", EltwiseParams(), [x], x.shape, "f32").profile
    assert profile.total_cycles == sum(op.cycles for op in profile.ops) > 3000
    assert profile.device_ns == profile.total_cycles
    # Double-buffered tiles of input and output.
    assert profile.l1_peak_bytes == 4 * 4096
    assert profile.dram_peak_bytes > 0


def test_a_shard_on_its_own_core_crosses_nothing() -> None:
    made = one_kernel("add", EltwiseParams(), [((1024, 1024), "bf16")] * 2, ((1024, 1024), "bf16"))
    program, system = made.programs[0], load_board("n150")
    op = program.operations[2]

    def cost_in(buffer: str, spread: str, grid: tuple[int, int]) -> OpCost:
        tensors = tuple(
            dataclasses.replace(t, buffer_type=buffer, memory_layout=spread, grid=grid)
            if t.buffer_type != "system_memory"
            else t
            for t in program.tensors
        )
        return operation_cost(op, dataclasses.replace(program, tensors=tensors), system, system.ttnn)

    dram = cost_in("dram", "interleaved", (1, 1))
    dealt = cost_in("l1", "interleaved", (1, 1))
    own = cost_in("l1", "block_sharded", (8, 8))
    few = cost_in("l1", "block_sharded", (4, 4))
    assert dram.dram_bytes == 3 * 1024 * 1024 * 2
    assert dealt.dram_bytes == own.dram_bytes == own.transfer_cycles == own.noc_bytes == 0
    assert dram.transfer_cycles > dealt.transfer_cycles > 0
    assert few.compute_cycles > 3.5 * own.compute_cycles
    assert (own.cores, few.cores) == (64, 16)
