"""What a plan's operations move: figures that add up to the run's, and are the same wherever they are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.compiler.api import Compilation, Configuration, compile_to, planned_module
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.planner import budget_of
from opscope.compiler.target import binary as binary_file
from opscope.compiler.target.program import Binary
from opscope.simulator.commands.simulate import simulate
from opscope.simulator.counters import counters
from opscope.simulator.device import Device
from opscope.simulator.host import performance_trace
from opscope.simulator.modelled import modelled
from opscope.simulator.profile import Profile
from opscope.simulator.program_run import ProgramRun
from opscope.simulator.timing.events.geometry import geometry_of
from opscope.simulator.timing.tests.test_epochs import compiled
from opscope.simulator.timing.timed import Timed
from opscope.simulator.timing.traffic import HOST, stored_bytes

TEXT = b"""func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.tanh %0 : tensor<64x64xf32>
  %2 = stablehlo.add %1, %x : tensor<64x64xf32>
  %3 = stablehlo.multiply %2, %0 : tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}"""
FIGURES = ("dram_bytes", "dram_read_bytes", "dram_written_bytes", "noc_bytes")
BOARDS = ("n150", "n300", "e150", "p150")


def planned(board: str) -> Binary:
    """Four ops in two epochs, with queues between them; x waits on the host, w in DRAM."""
    configuration = Configuration()
    configuration.set_configuration_options(enable_auto_fusing=False)
    configuration.set_epoch_break("add_0")
    return binary_file.read(planned_module(compile_to(Compilation(TEXT, board, configuration, "four"))).program)


def totals(profile: Profile, device: Device, cores: int) -> dict[str, int]:
    """The counters' bytes, after a check that they are the sums of the operations' own."""
    summary = {name: getattr(counters(profile, device.system, cores), name) for name in FIGURES}
    assert summary == {name: sum(op.figures()[name] for op in profile.ops) for name in FIGURES}
    assert summary["dram_bytes"] == summary["dram_read_bytes"] + summary["dram_written_bytes"]
    return summary


@pytest.mark.parametrize("board", BOARDS)
def test_operations_move_what_the_plans_queues_hold(board: str) -> None:
    binary = planned(board)
    for timing in (None, Timed()):
        device = Device(board, timing=timing)
        executable = device.load_decoded(binary)
        summary = totals(executable.profile, device, executable.cores)
        queues = [queue for queue in binary.plan.queues if queue.location == "dram"]
        size = {queue.name: stored_bytes(queue) for queue in queues}
        assert len([queue for queue in queues if queue.source == HOST]) == 1, "w"
        written = {queue.source: size[queue.name] for queue in queues if queue.source != HOST}
        assert summary["dram_written_bytes"] == sum(written.values()) > 0
        assert summary["dram_read_bytes"] == sum(size.values()), "all that is written, and w"
        peak = device.system.dram_gb_per_s / device.system.clock_ghz
        assert summary["dram_bytes"] / executable.profile.total_cycles < peak, "bytes per cycle"
        by_name = {op.location: op for op in executable.profile.ops if op.cores}
        for name, op in by_name.items():
            assert op.noc_bytes > 0, f"{name} has an operand that comes from a core or from DRAM"
        assert {name: op.dram_written_bytes for name, op in by_name.items() if op.dram_written_bytes} == written


@pytest.mark.parametrize(("prologue", "reads"), [("true", 1), ("false", 2)])
def test_what_a_prologue_loads_is_read_once_in_an_execution(prologue: str, reads: int, tmp_path: Path) -> None:
    """Two inputs each time that the host runs the program: 16 tiles of weights are read for each, or before them."""
    executable = Device("n150").load_decoded(compiled(tmp_path, prologue))
    weights, run = 16 * (2048 + 32), ProgramRun(executable)
    once = totals(executable.profile, executable.device, executable.cores)
    assert once["dram_read_bytes"] == weights
    run.push("w", np.ones((1, 128, 128), np.float32))
    for executions in (1, 2):
        for _ in range(2):
            run.push("x", np.ones((1, 128, 128), np.float32))
        run.run("run")
        run.do([("pop", "y", None)] * 2)
        counted = totals(run.profile, executable.device, executable.cores)
        assert counted["dram_read_bytes"] == executions * reads * weights
        assert counted["noc_bytes"] == 2 * executions * once["noc_bytes"]


def test_every_place_tells_the_same(tmp_path: Path) -> None:
    binary = planned("n150")
    file, trace = tmp_path / "p.ttnn", tmp_path / "trace.json"
    file.write_bytes(binary_file.write(binary))
    executable = Device("n150").load_decoded(binary)
    expected = totals(executable.profile, executable.device, executable.cores)
    for options in ([], ["--timed", "--trace", str(trace)]):
        as_json = CliRunner().invoke(simulate, [str(file), *options, "--json"])
        summary = json.loads(as_json.output)
        assert {name: summary[name] for name in FIGURES} == expected
        assert {name: sum(op[name] for op in summary["ops"]) for name in FIGURES} == expected
        text = " ".join(CliRunner().invoke(simulate, [str(file), *options, "--all"]).output.split())
        assert f"{expected['dram_read_bytes']:,} bytes read from DRAM" in text
        assert f"{expected['dram_written_bytes']:,} bytes written" in text
        assert f"{expected['noc_bytes']:,} bytes over the NoC" in text
    page = trace.with_suffix(".html").read_text()
    assert f"{expected['noc_bytes']:,} bytes over the NoC" in page
    cells = [re.findall("<td>(.*?)</td>", row) for row in page.split("<tr>")[2:]]
    read, written, noc = (sum(int(row[-place].replace(",", "")) for row in cells) for place in (3, 2, 1))
    assert (read, written, noc) == tuple(expected[name] for name in FIGURES[1:])
    document = json.loads(trace.read_text())
    assert {name: document["otherData"]["counters"][name] for name in FIGURES} == expected
    verbose = performance_trace.write(tmp_path, "one", "VERBOSE", executable.profile, binary.plan)
    rows = json.loads(verbose.read_text())["ops"]
    assert {name: sum(row[name] for row in rows) for name in FIGURES} == expected


def test_a_trace_names_input_epoch_op_and_core(tmp_path: Path) -> None:
    binary = planned("n150")
    file, trace = tmp_path / "p.ttnn", tmp_path / "trace.json"
    file.write_bytes(binary_file.write(binary))
    got = CliRunner().invoke(simulate, [str(file), "--timed", "--trace", str(trace), "--json"])
    assert got.exit_code == 0, got.output
    document = json.loads(trace.read_text())
    named = {e["pid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"}
    place = {op.name: (op.epoch, {f"{row}-{col}" for row, col in op.cores()}) for op in binary.plan.ops}
    inputs = set()
    for event in (e for e in document["traceEvents"] if e["ph"] == "X"):
        args = event["args"]
        epoch, cores = place[args["op"]]
        assert (args["epoch"], args["chip"]) == (epoch, 0)
        assert args["core"] in cores
        assert named[event["pid"]] == f"epoch {epoch}, chip 0, core {args['core']}"
        assert event["name"] == f"{args['op']}, input {args['input']}"
        inputs.add(args["input"])
    assert inputs == set(range(document["otherData"]["inputs"]))
    assert f"Up to {len(inputs)} inputs went through an epoch" in trace.with_suffix(".html").read_text()


def test_memory_of_a_plan_is_that_of_its_ops_and_queues() -> None:
    binary = planned("n150")
    profile = Device("n150").load_decoded(binary).profile
    assert profile.l1_peak_bytes == max(op.l1_bytes for op in binary.plan.ops)
    queue_bytes = sum(q.entries * stored_bytes(q) for q in binary.plan.queues if q.location == "dram")
    assert profile.dram_peak_bytes == queue_bytes > 0


@pytest.mark.parametrize(
    ("board", "buda", "ttnn"),
    [
        ("n150", (9, 8), (8, 8)),
        ("n300", (8, 8), (8, 8)),
        ("galaxy", (10, 8), (8, 8)),
        ("p150", (10, 14), (10, 11)),
    ],
)
def test_cores_of_a_plan_are_those_of_its_grid(board: str, buda: tuple[int, int], ttnn: tuple[int, int]) -> None:
    """What plans, programs, pages of events and `opscope device` count by is the board's file."""
    timed = Timed()
    executable = Device(board, timing=timed).load_decoded(planned(board))
    system, profile = executable.device.system, executable.profile
    assert budget_of(board).grid == Grid(*buda)
    shown = modelled(system).profiles
    assert (shown.buda.grid, shown.ttnn.grid) == (buda, ttnn)
    assert executable.cores == buda[0] * buda[1]
    assert executable.device.profile.cores == ttnn[0] * ttnn[1]
    assert timed.recording.roofs is not None
    assert timed.recording.roofs.flops == executable.cores * 2 * 32**3 / system.cycles_per_tile_matmul
    assert len(geometry_of(system, buda[0]).rows) == buda[0]
    counted = counters(profile, system, executable.cores).utilisation
    busy = sum(epoch.busy_core_cycles for epoch in profile.epochs)
    assert counted == pytest.approx(busy / (profile.total_cycles * executable.cores))
