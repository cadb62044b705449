"""Netlists: what is written reads back as it was, runs as the plan did, and what is wrong with one is one line."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from opscope.compiler.buda.netlist.check import check, core_buffers
from opscope.compiler.buda.netlist.emit import netlist_of, to_yaml
from opscope.compiler.buda.netlist.interpret import executions
from opscope.compiler.buda.netlist.model import Netlist, Program
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import elements_of, elements_of_queue, spec_of, to_binary
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan_to_binary import PlannedProgram
from opscope.compiler.buda.plan_to_binary import to_binary as planned_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.commands.netlist import netlist_command
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import interpret
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import model, run


def planned(name: str, policy: str, board: str, breaks: tuple[str, ...] = ()) -> tuple[PlannedProgram, Netlist]:
    buda_plan = plan(model(name).graph, budget_of(board), policy, placer=PlacerOptions(epoch_breaks=breaks))
    program = planned_binary(buda_plan, load_board(board))
    return program, netlist_of(buda_plan, program)


CASES = [
    ("attention", "NLP", "e150", ("multiply_0", "matmul_5")),
    ("attention", "Random", "n150", ()),
    ("convnet", "Ribbon", "e150", ("reduce_1",)),
    ("layer", "MinimizeGrid", "e150", ("add_0",)),
    ("turned", "NLP", "n150", ("tanh_0",)),
    ("convnet", "MaximizeTMinimizeGrid", "n150", ()),
]
SLOW = (CASES[0], CASES[-1])


@pytest.mark.parametrize(
    "case",
    # quick: the same graph by another policy
    [case if case not in SLOW else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
    ids=lambda case: "-".join(case[:3]),
)
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


@cache
def text_of(board: str = "e150") -> str:
    return to_yaml(planned("layer", "MinimizeGrid", board, ("add_0",))[1])


def changed(path: str, value: object, board: str = "e150") -> str:
    """The netlist of a layer with one value replaced: `graphs.fwd_0_0.matmul_0.grid_loc`."""
    raw = yaml.load(text_of(board), yaml.CSafeLoader)
    *keys, last = path.split(".")
    at = raw
    for key in keys:
        at = at[int(key) if isinstance(at, list) else key]
    if value is None:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False)


BAD = {
    "overlapping cores": ("graphs.fwd_0_1.tanh_0.grid_loc", [0, 0], "expected free cores"),
    "off the grid": ("graphs.fwd_0_0.matmul_0.grid_loc", [10, 0], "expected cores of the 10x12 grid"),
    "unknown queue": ("graphs.fwd_0_0.matmul_0.inputs", ["arg0", "argh1"], "expected an op or a queue.*try arg1"),
    "past a queue": ("graphs.fwd_0_1.add_0.inputs", ["matmul_0", "arg2"], "expected a queue between graphs"),
    "illegal format": ("graphs.fwd_0_0.matmul_0.out_df", "Float17", "format"),
    "wide accumulator": ("graphs.fwd_0_0.matmul_0.acc_df", "Float32", "acc_df: expected .*Float16_b"),
    "more than L1": ("graphs.fwd_0_0.matmul_0.buf_size_mb", 500, "expected at most 839552 bytes of L1"),
    "for ever": ("programs.0.run_fwd_0.3.loop", 0, r"got 0 \(for ever\)"),
    "open loop": ("programs.0.run_fwd_0.8", "endprogram", "loop"),
    "unknown variable": ("programs.0.run_fwd_0.3.loop", "$q", "expected a variable that is declared"),
    "unknown graph": ("programs.0.run_fwd_0.4.execute.graph_name", "fwd_9", "expected a graph"),
    "unknown settings": ("programs.0.run_fwd_0.4.execute.queue_settings.nope", {}, "expected a queue"),
    "no such chip": ("devices.arch", ["grayskull", "wormhole_c0"], "expected a board or an arch, got 'wormhole_c0'"),
    "a template": (
        "graphs.fwd_0_0.input_count",
        "$TEMPLATE_microbatch",
        r"template variable \$TEMPLATE_microbatch in line",
    ),
    "an attribute": ("graphs.fwd_0_0.matmul_0.attributes.srnd_fpu_en", True, "srnd_fpu_en: expected False, got True"),
    "a tile": ("graphs.fwd_0_0.matmul_0.tile_dim", [16, 16], r"tile_dim: expected \[32, 32\]"),
    "same place in DRAM": ("queues.arg2.dram", [[0, 256]], "expected DRAM of its own"),
    "no such channel": ("queues.arg2.dram", [[8, 256]], "expected to lie in 8 channels"),
    "addresses": ("queues.arg1.dram", [], "expected 1 addresses"),
    "an address too many": ("queues.arg1.dram", [[0, 256], [1, 256]], "expected 1 addresses for its grid, got 2"),
    "no address": ("queues.arg0.host", [], "expected 1 addresses for its grid, got 0"),
    "a word too many": ("graphs.fwd_0_0.matmul_0.grid_lock", 1, "try grid_loc"),
    "missing": ("graphs.fwd_0_0.matmul_0.grid_size", None, "grid_size: expected 2 whole numbers"),
    "shapes": ("graphs.fwd_0_0.matmul_0.mblock", [9, 9], "expected"),
    "fidelity": ("graphs.fwd_0_0.matmul_0.math_fidelity", "HiFi5", "LoFi, HiFi2, HiFi2_B, HiFi3, HiFi4"),
    "tm": ("graphs.fwd_0_1.add_0.input_1_tms", [{"twist": 2}], "TM: expected"),
    "two TMs in one": ("graphs.fwd_0_1.add_0.input_1_tms", [{"hslice": 2, "vslice": 2}], "TM: expected .* got ''"),
    "a number for a TM": ("graphs.fwd_0_1.add_0.input_1_tms", [3], "TM: expected .* got ''"),
    "section": ("programs", None, "expected a section programs"),
    "off the last column": ("graphs.fwd_0_0.matmul_0.grid_loc", [0, 12], "expected cores of the 10x12 grid"),
    "before the barrier": ("queues.arg2.dram", [[1, 224]], "expected an address from 0x100, got 0xe0"),
    "past a channel's end": ("queues.arg2.dram", [[1, 2**30 - 10400 + 32]], "expected to lie in 8 channels"),
    "in another's last tile": ("queues.arg2.dram", [[0, 256 + 20 * 2080 - 32]], "expected DRAM of its own"),
    "no channel": ("queues.arg1.dram", [[256]], r"expected a list of \[channel, address\]"),
    "below zero": ("queues.arg1.dram", [[0, -32]], r"expected a list of \[channel, address\]"),
    "a flag for a number": ("graphs.fwd_0_0.matmul_0.t", True, "t: expected a whole number from 1, got True"),
    "a number for a flag": ("graphs.fwd_0_1.tanh_0.untilize_output", 1, "expected true or false, got 1"),
    "nothing of it": ("queues.arg1.entries", 0, "entries: expected a whole number from 1, got 0"),
    "more than any": ("queues.arg1.entries", 2**20 + 1, "entries: expected a whole number from 1"),
    "three of a pair": ("graphs.fwd_0_0.matmul_0.ublock", [1, 5, 1], "ublock: expected 2 whole numbers from 1"),
    "a pair of flags": ("graphs.fwd_0_0.matmul_0.ublock", [1, True], "ublock: expected 2 whole numbers from 1"),
    "TMs of a third input": ("graphs.fwd_0_1.add_0.input_2_tms", [], "expected TMs of inputs 0 to 1, got input_2_tms"),
    "TMs of a word": ("graphs.fwd_0_1.add_0.input_b_tms", [], "expected TMs of inputs 0 to 1, got input_b_tms"),
    "one format of two": ("graphs.fwd_0_0.matmul_0.in_df", ["Float16_b"], "in_df: expected 2 formats, got 1"),
    "no such writer": ("queues.e2e_matmul_0_0.input", "gone", "expected HOST or an op, got 'gone'"),
    "written too late": ("programs.0.run_fwd_0.4.execute", {"graph_name": "fwd_0_1"}, "expected fwd_0_0 to run before"),
    "no inputs": ("graphs.fwd_0_0.matmul_0.inputs", [], "expected a list of ops and queues"),
    "no instructions": ("programs.0.run_fwd_0", "endloop", "expected a list of instructions"),
    "settings that are a number": ("programs.0.run_fwd_0.4.execute.queue_settings", 3, "by the name of a queue, got 3"),
    "a block that is a list": ("graphs.fwd_0_0.matmul_0.attributes.u_kt", [1], "u_kt: expected a whole number from 0"),
    "a reduction of no kind": ("graphs.fwd_0_0.matmul_0.attributes.type", 3, "expected sum or max or mean, got 3"),
    "a block too deep": ("graphs.fwd_0_0.matmul_0.attributes.m_k", 2**63, "m_k: expected a whole number from 0"),
    "an instruction that is a list": ("programs.0.run_fwd_0.0", [[]], r"expected allocate_queue, .*got \[\[\]\]"),
    "two instructions in one": ("programs.0.run_fwd_0.0", {"loop": 1, "endloop": 1}, "expected allocate_queue"),
    "an unknown instruction": ("programs.0.run_fwd_0.0", "jump", "expected allocate_queue, .*got 'jump'"),
    "a chip too far": ("graphs.fwd_0_0.target_device", 32, "target_device: expected a chip from 0 to 31, got 32"),
    "windows": ("graphs.fwd_0_0.matmul_0.attributes", {"identity": True}, "expected sparse tiles, activations"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_netlist_is_refused_in_one_line(name: str) -> None:
    path, value, message = BAD[name]
    text = changed(path, value)
    if name == "written too late":
        text = "graph_name: fwd_0_0".join(text.rsplit("graph_name: fwd_0_1", 1))
    with pytest.raises(CompilerInputError, match=message) as caught:
        to_binary(parse(text))
    assert "\n" not in str(caught.value)


RIGHT = {
    "unchanged": ("devices.arch", "grayskull"),
    "one kind of chip": ("devices.arch", ["grayskull", "grayskull"]),
    "the last core": ("graphs.fwd_0_0.matmul_0.grid_loc", [9, 11]),
    "the last channel": ("queues.arg2.dram", [[7, 256]]),
    "the first address": ("queues.arg2.dram", [[1, 256]]),
    "up to the channel's end": ("queues.arg2.dram", [[1, 2**30 - 10400]]),
    "right behind another": ("queues.arg2.dram", [[0, 256 + 20 * 2080]]),
    "before another": ("queues.arg1.dram", [[1, 256 + 10400]]),
    "two places on the host": ("queues.arg0.host", [[0, 0], [0, 2**20]]),
    "the last chip": ("graphs.fwd_0_0.target_device", 31),
    "two entries": ("queues.arg1.entries", 2),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_netlist_that_just_fits_is_accepted(name: str) -> None:
    check(parse(changed(*RIGHT[name])))


def test_a_kernel_chooses_the_buffers_that_the_netlist_leaves_open() -> None:
    netlist = parse(changed("graphs.fwd_0_0.matmul_0.input_buf_min_size_tiles", None))
    graph = netlist.graphs[0]
    # Two micro blocks of each side: 1 row and 5 columns, 4 tiles deep; the output is held twice.
    assert [b.tiles for b in core_buffers(netlist, graph, graph.ops[0])] == [2 * 4, 2 * 5 * 4, 2 * 15]
    graph = netlist.graphs[1]
    assert [b.tiles for b in core_buffers(netlist, graph, graph.ops[1])] == [10, 30]
    apart = parse(changed("graphs.fwd_0_0.matmul_0.intermed_df", "Float16"))
    (kept,) = (b for b in core_buffers(apart, apart.graphs[0], apart.graphs[0].ops[0]) if b.role == "intermediate")
    assert (kept.operand, kept.data_format, kept.tiles, kept.bytes) == (0, "Float16", 15, 15 * 2080)
    for kind, attributes, partial in (("tanh", {}, 0), ("reduce", {"dim": "c"}, 0), ("reduce", {"dim": "z"}, 15)):
        op = replace(graph.ops[1], type=kind, attributes=attributes, intermed_df="Float16")
        buffers = core_buffers(netlist, graph, op)
        assert sum(b.tiles for b in buffers if b.role == "intermediate") == partial
    eager = parse(changed("programs.0.run_fwd_0.4.execute.queue_settings.arg1.prologue", True))
    kept = core_buffers(eager, eager.graphs[0], eager.graphs[0].ops[0])
    # The kernel's own buffer has room for all of the parameter: there is no second one.
    assert [(b.role, b.operand, b.tiles) for b in kept] == [("input", 0, 8), ("input", 1, 40), ("output", 0, 30)]


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


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (("var", {"$a": 1, "$b": "two"}), r"expected names and whole numbers, got {'\$a': 1, '\$b': 'two'}"),
        (("var", "$a"), r"expected names and whole numbers, got '\$a'"),
        (("varinst", ["$c", "sub", "$c", 1]), r"expected \[variable, set\|add\|mul\|inc\|incwrap, ...\], got"),
        (("varinst", ["$c", "set"]), r"expected \[variable, set\|add\|mul\|inc\|incwrap, ...\], got"),
        (("varinst", "$c"), r"expected \[variable, set\|add\|mul\|inc\|incwrap, ...\], got '\$c'"),
        (("varinst", ["$c", "incwrap", 1, 0]), r"expected operands of incwrap, got \[1, 0\]"),
        (("varinst", ["$c", "add", 1]), r"expected operands of add, got \[1\]"),
        (("varinst", ["$d", "inc", 1]), r"expected a variable that is declared, got '\$d'; try \$c"),
        (("varinst", ["$c", "inc", True]), "expected a variable or a whole number of 64 bits, got True"),
        (("varinst", ["$c", "mul", 1 << 62, 4]), "expected a number of 64 bits, got \\$c of 65 bits"),
        (("loop", None), "expected a variable or a whole number of 64 bits, got None"),
        (("param", "$c"), r"expected a list of names, got '\$c'"),
        (("allocate_queue", [3]), r"expected a list of names, got \[3\]"),
        (
            ("execute", {"graph_name": "g", "queue_settings": {"x": {"zero": "b"}}}),
            r"\[1\].x.zero: expected true, false, a number or a variable, got 'b'",
        ),
        (("varinst", ["$d", "add", 1, 2]), r"expected a variable that is declared, got '\$d'; try \$c"),
        (("varinst", ["$c", "set", 1, 2]), r"expected operands of set, got \[1, 2\]"),
        (("varinst", ["$c", "incwrap", 1, -1]), r"expected operands of incwrap, got \[1, -1\]"),
        (("execute", "g"), "expected a graph_name, got 'g'"),
        (("execute", {"graph_name": 3}), "expected a graph_name, got {'graph_name': 3}"),
        (("execute", {"graph_name": "g", "queue_settings": {"x": 3}}), "expected the settings of queue x, got 3"),
        (("loop", 0), r"programs.run\[1\]: expected an endloop, got none"),
        (("endloop", None), r"programs.run\[1\]: expected a loop before endloop, got none"),
    ],
)
def test_a_program_that_the_interpreter_cannot_run_is_refused_in_one_line(
    instruction: tuple[str, object], message: str
) -> None:
    with pytest.raises(CompilerInputError, match=message):
        list(executions(Program("run", (("var", {"$c": 5}), instruction))))


def test_the_interpreter_names_the_known_variables() -> None:
    def message(*lines: tuple[str, object]) -> str:
        with pytest.raises(CompilerInputError) as caught:
            list(executions(Program("run", lines)))
        return str(caught.value)

    unknown = "expected a variable that is declared, got '$q'; try"
    assert message(("loop", "$q"), ("endloop", None)) == f"programs.run[0]: {unknown} var: {{$c_zero: 0}}"
    five = ("var", [f"${name}" for name in "abcde"])
    assert message(five, ("varinst", ["$q", "inc", 1])) == f"programs.run[1]: {unknown} $a, $b, $c, $d"
    assert message(("loop", 2), ("loop", 2)).startswith("programs.run[1]: expected an endloop")
    assert message(("loop", 0), ("endloop", None)) == (
        "programs.run[0]: expected a loop of 1 or more rounds, got 0 (for ever)"
    )


def test_what_is_not_given_is_one_and_what_is_only_declared_zero() -> None:
    settings = {"x": {"a": "$a", "b": "$b", "flag": True, "number": 7}}
    lines = (
        ("param", None),
        ("param", ["$a"]),
        ("var", ["$b"]),
        ("var", {"$c": 5}),
        ("loop", "$a"),
        ("varinst", ["$c", "incwrap", 1, 1]),
        ("varinst", ["$b", "add", "$c", "$a"]),
        ("execute", {"graph_name": "g", "queue_settings": settings}),
        ("endloop", None),
        ("execute", {"graph_name": "h", "queue_settings": None}),
        ("execute", {"graph_name": "i"}),
    )
    for asked, a in ((None, 1), ({}, 1), ({"a": 2}, 2)):
        steps = list(executions(Program("run", lines), asked))
        assert [step.graph for step in steps] == [*["g"] * a, "h", "i"]
        assert steps[0].queue_settings == {"x": {"a": a, "b": a, "flag": 1, "number": 7}}
        assert steps[-1].queue_settings == {}
    (zero,) = executions(
        Program("run", (lines[2], ("execute", {"graph_name": "g", "queue_settings": {"x": {"b": "$b"}}})))
    )
    assert zero.queue_settings == {"x": {"b": 0}}


def test_the_interpreter_computes() -> None:
    lines = (
        ("var", ["$a", "$b"]),
        ("varinst", ["$a", "set", 7]),
        ("varinst", ["$b", "add", "$a", 3]),
        ("varinst", ["$a", "mul", "$b", "$b"]),
        ("varinst", ["$a", "inc", -1]),
        ("varinst", ["$b", "incwrap", 2, 11]),
        ("execute", {"graph_name": "g", "queue_settings": {"x": {"rd_ptr_local": "$a", "rd_ptr_global": "$b"}}}),
    )
    (step,) = executions(Program("run", lines))
    assert step.queue_settings["x"] == {"rd_ptr_local": 99, "rd_ptr_global": 1}


def test_a_program_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (("loop", 1 << 19), ("loop", 1 << 19), ("endloop", None), ("endloop", None))
    assert interpret.MOST_STEPS == 1_000_000
    monkeypatch.setattr(interpret, "MOST_STEPS", 1000)
    with pytest.raises(CompilerInputError, match="expected an end within 1000"):
        list(executions(Program("run", lines)))
    just = (("loop", 499), ("execute", {"graph_name": "g"}), ("endloop", None))  # 1 + 2 * 499 instructions
    assert len(list(executions(Program("run", just)))) == 499
    last = ("execute", {"graph_name": "g"})
    assert len(list(executions(Program("run", (*just, last))))) == 500
    with pytest.raises(CompilerInputError, match="expected an end within 1000"):
        list(executions(Program("run", (*just, last, last))))
    ends = (("execute", {"graph_name": "g"}), ("endprogram", None), ("loop", 1 << 19), ("endloop", None))
    assert len(list(executions(Program("run", ends)))) == 1


def test_the_command_shows_checks_and_writes(tmp_path) -> None:
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


def test_a_queue_that_is_read_while_another_is_written_shares_no_bytes_with_it() -> None:
    """The second epoch reads what the first one left and writes its own result."""
    raw = yaml.load(text_of(), yaml.CSafeLoader)
    output = raw["queues"]["output0"] | {"loc": "dram"}
    del output["host"]
    for address in (256, 256 + 15 * 2080 - 32):
        raw["queues"]["output0"] = output | {"dram": [[2, address]]}
        message = f"queues.output0: expected DRAM of its own, got channel 2 at {address:#x}, where e2e_matmul_0_0 is"
        with pytest.raises(CompilerInputError, match=message):
            check(parse(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False)))
    raw["queues"]["output0"] = output | {"dram": [[2, 256 + 15 * 2080]]}
    check(parse(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False)))


def test_small_tiles_and_reduced_ones_hold_fewer_elements() -> None:
    netlist = parse(text_of())
    queue = replace(netlist.queues["arg1"], elements=None)  # 4x5 tiles
    assert elements_of_queue(queue) is None
    assert elements_of_queue(replace(queue, tile_dim=(16, 32))) == (1, 64, 160)
    op = replace(netlist.ops["matmul_0"], attributes={})  # 3x5 tiles
    assert elements_of(op) is None
    assert elements_of(replace(op, tile_dim=(32, 16))) is None  # filled up with zeros on the device
    blocks = {"r": ((1, 1), (1, 5)), "c": ((3, 1), (1, 1)), "z": (op.mblock, op.ublock)}
    reduced = {
        dim: elements_of(replace(op, type="reduce", attributes={"dim": dim}, mblock=mblock, ublock=ublock))
        for dim, (mblock, ublock) in blocks.items()
    }
    assert reduced == {"r": (1, 1, 160), "c": (1, 96, 1), "z": None}
    assert elements_of(replace(op, attributes={"elements": [1, 70, 130]})) == (1, 70, 130)


def test_partial_results_of_another_format_are_written() -> None:
    for text, wanted in ((text_of(), ""), (changed("graphs.fwd_0_0.matmul_0.intermed_df", "Float16"), "Float16")):
        netlist = parse(text)
        assert spec_of(netlist, netlist.graphs[0].ops[0]).intermediate_format == wanted
