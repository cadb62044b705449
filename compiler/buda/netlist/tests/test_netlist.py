"""Netlists: what is written reads back as it was, runs as the plan did, and what is wrong with one is one line."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from opscope.compiler.buda.netlist.check import check
from opscope.compiler.buda.netlist.emit import netlist_of, to_yaml
from opscope.compiler.buda.netlist.interpret import executions
from opscope.compiler.buda.netlist.model import Netlist, Program
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan_to_binary import PlannedProgram
from opscope.compiler.buda.plan_to_binary import to_binary as planned_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.commands.netlist import netlist_command
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import MODELS, Lowered, lowered_function, run


@cache
def model(name: str) -> Lowered:
    function, shapes = MODELS[name]
    return lowered_function(function, *shapes)


def planned(name: str, policy: str, board: str, breaks: tuple[str, ...] = ()) -> tuple[PlannedProgram, Netlist]:
    buda_plan = plan(model(name).graph, budget_of(board), policy, placer=PlacerOptions(epoch_breaks=breaks))
    program = planned_binary(buda_plan, load_board(board))
    return program, netlist_of(buda_plan, program)


CASES = [
    ("attention", "NLP", "e150", ("multiply_0", "matmul_5")),
    ("attention", "Random", "n150", ()),
    ("convnet", "Ribbon", "e150", ("reduce_1",)),
    ("convnet", "MaximizeTMinimizeGrid", "n150", ()),
    ("layer", "MinimizeGrid", "e150", ("add_0",)),
    ("turned", "NLP", "n150", ("tanh_0",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case[:3]))
def test_a_netlist_reads_back_and_runs_as_its_plan_did(case: tuple[str, str, str, tuple[str, ...]]) -> None:
    name, policy, board, breaks = case
    breaks = tuple(b for b in breaks if b in {node.name for node in model(name).graph.ops})
    program, netlist = planned(name, policy, board, breaks)
    text = to_yaml(netlist)
    assert parse(text, netlist.name) == netlist
    check(netlist)
    assert len(netlist.graphs) == len(program.binary.plan.epochs) > len(breaks)
    again = to_binary(parse(text, netlist.name), board)
    wanted = run(program, model(name).queues, per_core=True)
    for a, b in zip(run(again, model(name).queues, per_core=True), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    # Blocks, cores and L1 of the netlist are the plan's, worked out by other code.
    for mine, theirs in zip(again.binary.plan.ops, program.binary.plan.ops, strict=True):
        assert list(mine.cores()) == list(theirs.cores())
        assert mine.l1_bytes == theirs.l1_bytes
        assert mine.block == theirs.block


def text_of(board: str = "e150") -> str:
    return to_yaml(planned("layer", "MinimizeGrid", board, ("add_0",))[1])


def changed(path: str, value: object, board: str = "e150") -> str:
    """The netlist of a layer with one value replaced: `graphs.fwd_0_0.matmul_0.grid_loc`."""
    raw = yaml.safe_load(text_of(board))
    *keys, last = path.split(".")
    at = raw
    for key in keys:
        at = at[int(key) if isinstance(at, list) else key]
    if value is None:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return yaml.safe_dump(raw, sort_keys=False)


BAD = {
    "overlapping cores": ("graphs.fwd_0_1.tanh_0.grid_loc", [0, 0], "expected free cores"),
    "off the grid": ("graphs.fwd_0_0.matmul_0.grid_loc", [10, 0], "expected cores of the 10x12 grid"),
    "unknown queue": ("graphs.fwd_0_0.matmul_0.inputs", ["arg0", "argh1"], "expected an op or a queue.*try arg1"),
    "past a queue": ("graphs.fwd_0_1.add_0.inputs", ["matmul_0", "arg2"], "expected a queue between graphs"),
    "illegal format": ("graphs.fwd_0_0.matmul_0.out_df", "Float17", "format"),
    "wide accumulator": ("graphs.fwd_0_0.matmul_0.acc_df", "Float32", "acc_df: expected .*Float16_b"),
    "more than L1": ("graphs.fwd_0_0.matmul_0.buf_size_mb", 500, "expected at most 577408 bytes of L1"),
    "for ever": ("programs.0.run_fwd_0.3.loop", 0, r"got 0 \(for ever\)"),
    "open loop": ("programs.0.run_fwd_0.8", "endprogram", "loop"),
    "unknown variable": ("programs.0.run_fwd_0.3.loop", "$q", "expected a variable that is declared"),
    "unknown graph": ("programs.0.run_fwd_0.4.execute.graph_name", "fwd_9", "expected a graph"),
    "unknown settings": ("programs.0.run_fwd_0.4.execute.queue_settings.nope", {}, "expected a queue"),
    "two chips": ("devices.arch", ["grayskull", "wormhole_b0"], "expected one kind of chip"),
    "same place in DRAM": ("queues.arg2.dram", [[0, 256]], "expected DRAM of its own"),
    "no such channel": ("queues.arg2.dram", [[8, 256]], "expected to lie in 8 channels"),
    "addresses": ("queues.arg1.dram", [], "expected 1 addresses"),
    "a word too many": ("graphs.fwd_0_0.matmul_0.grid_lock", 1, "try grid_loc"),
    "missing": ("graphs.fwd_0_0.matmul_0.grid_size", None, "grid_size: expected 2 whole numbers"),
    "shapes": ("graphs.fwd_0_0.matmul_0.mblock", [9, 9], "expected"),
    "fidelity": ("graphs.fwd_0_0.matmul_0.math_fidelity", "HiFi5", "LoFi, HiFi2, HiFi3, HiFi4"),
    "tm": ("graphs.fwd_0_1.add_0.input_1_tms", [{"twist": 2}], "TM: expected"),
    "section": ("programs", None, "expected a section programs"),
    "windows": ("graphs.fwd_0_0.matmul_0.attributes", {"identity": True}, "expected those of a matmul"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_one_line(name: str) -> None:
    path, value, message = BAD[name]
    with pytest.raises(CompilerInputError, match=message) as caught:
        to_binary(parse(changed(path, value)))
    assert "\n" not in str(caught.value)


def test_an_unchanged_netlist_is_right() -> None:
    to_binary(parse(changed("devices.arch", "grayskull")))


def test_the_interpreter_counts_pointers_round() -> None:
    lines = (
        ("param", ["$p_loop_count"]),
        ("var", {"$c_one": 1}),
        ("staticvar", {"$lptr_q0": 0}),
        ("loop", "$p_loop_count"),
        ("execute", {"graph_name": "g", "queue_settings": {"x": {"rd_ptr_local": "$lptr_q0", "prologue": True}}}),
        ("varinst", ["$lptr_q0", "incwrap", "$c_one", 4]),
        ("endloop", None),
    )
    steps = list(executions(Program("run", lines), {"p_loop_count": 6}))
    assert [step.queue_settings["x"]["rd_ptr_local"] for step in steps] == [0, 1, 2, 3, 0, 1]


def test_a_program_that_never_ends_is_refused() -> None:
    lines = (("loop", 1 << 19), ("loop", 1 << 19), ("endloop", None), ("endloop", None))
    with pytest.raises(CompilerInputError, match="expected an end within"):
        list(executions(Program("run", lines)))


def test_the_command_shows_checks_and_writes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file, out = tmp_path / "layer.yaml", tmp_path / "layer.ttnn"
    file.write_text(text_of())
    shown = CliRunner().invoke(netlist_command, [str(file), "-o", str(out)])
    assert shown.exit_code == 0, shown.output
    assert re.search(r"fwd_0_0 +│ 0 +│ 1", shown.output)
    assert out.stat().st_size > 1000
    result = CliRunner().invoke(netlist_command, [str(file), "--op", "matmul_0"])
    assert result.output.startswith("matmul_0: {type: matmul, grid_loc: [0, 0]")
    file.write_text(changed("graphs.fwd_0_1.tanh_0.grid_loc", [0, 0]))
    refused = CliRunner().invoke(netlist_command, [str(file)])
    assert refused.exit_code == 2
    assert "expected free cores" in refused.output
    assert "Traceback" not in refused.output
