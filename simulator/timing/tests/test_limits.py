"""What limits a planned program: netlists of one op whose limit follows from how they are built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opscope.compiler.buda.netlist import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.target.program import Binary
from opscope.simulator.counters import Counters, counters
from opscope.simulator.device import Device
from opscope.simulator.profile import EpochCost, Profile
from opscope.simulator.timing.timed import Timed

QUEUE = (
    "type: {kind}, entries: {entries}, grid_size: [1,{cores}], t: 1, mblock: [{rows},{cols}], ublock: [1,{width}], "
    "df: Float16_b, target_device: 0"
)
BLOCK = (
    "t: 1, buf_size_mb: 2, ublock_order: r, out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, "
    "untilize_output: true"
)


def netlist(op: str, x: str, y: str, w: str = "", prologue: str = "true") -> str:
    settings = "x: {prologue: false, epilogue: false, zero: false}"
    if w:
        settings += f", w: {{prologue: {prologue}, epilogue: false, zero: false}}"
    return f"""
devices: {{arch: wormhole_b0}}
queues:
  x: {{input: HOST, {x}, loc: host, host: [0x0]}}
{f"  w: {{input: HOST, {w}}}" if w else ""}
  y: {{input: op, {y}, loc: host, host: [0x10000000]}}
graphs:
  fwd_0:
    target_device: 0
    input_count: 1
    op: {{grid_loc: [0, 0], {BLOCK}, {op}}}
programs:
  - run:
    - var: [$p]
    - execute: {{graph_name: fwd_0, queue_settings: {{{settings}}}}}
    - endprogram
"""


def queue(rows: int, cols: int, *, kind: str = "queue", cores: int = 1, width: int = 1) -> str:
    entries = 1 if kind == "ram" else 2
    return QUEUE.format(kind=kind, entries=entries, cores=cores, rows=rows, cols=cols, width=width)


def product(fidelity: str, steps: int, cores: int = 1, prologue: str = "true") -> str:
    """2 x 4 tiles on each core, of `steps` steps of 4 tiles; every core's part of `w` lies on the same channel."""
    op = (
        f"type: matmul, grid_size: [1, {cores}], inputs: [x, w], mblock: [2, 1], ublock: [1, 4], "
        f"in_df: [Float16_b, Float16_b], math_fidelity: {fidelity}, attributes: {{m_k: {steps}, u_kt: 4}}"
    )
    parts = ", ".join(f"[2, {0x30000000 + 0x1000000 * core:#x}]" for core in range(cores))
    w = f"{queue(4 * steps, 4, kind='ram', cores=cores)}, loc: dram, dram: [{parts}]"
    return netlist(op, queue(2, 4 * steps), queue(2, 1, cores=cores, width=4), w, prologue)


def copy(rows: int, cols: int, width: int) -> str:
    """`rows` x `cols` micro blocks of `width` tiles."""
    op = (
        f"type: nop, grid_size: [1, 1], inputs: [x], mblock: [{rows}, {cols}], ublock: [1, {width}], "
        "in_df: [Float16_b], math_fidelity: LoFi"
    )
    return netlist(op, queue(rows, cols, width=width), queue(rows, cols, width=width))


def binary_of(text: str, folder: Path) -> Binary:
    (folder / "netlist.yaml").write_text(text, encoding="utf-8")
    return to_binary(parse.read(folder / "netlist.yaml")).binary


def counted(text: str, folder: Path, *, timed: bool) -> Counters:
    binary = binary_of(text, folder)
    device = Device("n150", profile="buda", timing=Timed() if timed else None)
    return counters(device.load_decoded(binary).profile, device.system, device.profile.cores)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        pytest.param(product("HiFi4", 16), "math", id="product of four phases"),
        # 16 tiles fit the core's buffers, so that the path of data through the core decides, whose math is a copy.
        pytest.param(copy(4, 4, 1), "unpack", id="copy"),
        # Four cores read their parts of w again for every input, from one channel.
        pytest.param(product("LoFi", 16, 4, "false"), "dram", id="weights of one channel"),
        # 128 tiles do not fit the buffers: they are waited for.
        pytest.param(copy(8, 2, 8), "noc", id="long copy"),
    ],
)
@pytest.mark.parametrize("timed", [False, True], ids=["closed form", "events"])
def test_the_unit_that_limits_a_plan_is_named(text: str, unit: str, timed: bool, tmp_path: Path) -> None:
    assert counted(text, tmp_path, timed=timed).limiter == unit


def test_utilisation_of_a_plan_is_that_of_its_cores() -> None:
    """Two chips for 100 cycles, then one of them alone for 300: 400 cycles of 2 x 4 cores."""
    epochs = (
        EpochCost(0, 0, "a", 50, 0, 0, 0, inputs=2, busy_core_cycles=150),
        EpochCost(0, 1, "b", 20, 10, 0, 0, inputs=2, busy_core_cycles=20, slowest_unit="pack"),
        EpochCost(1, 0, "c", 100, 200, 0, 0, busy_core_cycles=60, stall_unit="ethernet"),
    )
    system = Device("n150").system
    counted = counters(Profile((), 1.0, 0, 0, epochs=epochs), system, 4)
    assert counted.utilisation == pytest.approx((2 * 150 + 2 * 20 + 60) / (400 * 8))
    assert counted.limiter == "ethernet"
    cut = counters(Profile((), 1.0, 0, 0, epochs=epochs, partial=True), system, 4)
    assert (cut.limiter, cut.utilisation) == (None, None)


STORED, HELD = 2048 + 32, 2048
"""Bytes of a tile of bfloat16 in DRAM, where it has a header, and as an operand."""


def test_bytes_of_a_plan_are_those_of_its_queues(tmp_path: Path) -> None:
    """Two entries of x come from the host; w has 64 x 4 tiles for each core."""
    kept = counted(product("LoFi", 16), tmp_path, timed=False)
    assert (kept.dram_bytes, kept.noc_bytes) == (64 * 4 * STORED, 0), "read once into L1"
    for timed in (False, True):
        read = counted(product("LoFi", 16, 4, "false"), tmp_path, timed=timed)
        assert (read.dram_bytes, read.noc_bytes) == (4 * 64 * 4 * STORED, 64 * 4 * HELD)


def test_weights_on_another_chip_come_over_ethernet(tmp_path: Path) -> None:
    binary = binary_of(product("LoFi", 16, 1, "false"), tmp_path)
    moved = tuple(replace(queue, chip=1) if queue.name == "w" else queue for queue in binary.plan.queues)
    far = replace(binary, board="n300", plan=replace(binary.plan, queues=moved))
    cycles, limits = [], []
    for made in (binary, far):
        timed = Timed()
        device = Device(made.board, profile="buda", timing=timed)
        profile = device.load_decoded(made).profile
        cycles.append(profile.total_cycles)
        limits.append(counters(profile, device.system, device.profile.cores).limiter)
        if made is far:
            assert timed.recording.ethernet_bytes == 64 * 4 * STORED, "of one input, as all byte counts are"
    assert limits[1] == "ethernet" != limits[0]
    link = Device("n300").system.ethernet
    assert link is not None
    rate = link.gb_per_s / Device("n300").system.clock_ghz
    assert cycles[1] == pytest.approx(64 * 4 * STORED / rate, rel=0.05)
    assert cycles[1] > cycles[0]
