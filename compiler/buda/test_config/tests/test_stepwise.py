"""A training step as a netlist: gradients add up in a ram, and an optimizer writes the weights that forward reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.buda.test_config import config as configs
from opscope.compiler.buda.test_config.rows import NotModelledError
from opscope.compiler.buda.test_config.run import run_test_config
from opscope.compiler.buda.test_config.stepwise import Step
from opscope.compiler.buda.test_config.stimulus import input_of
from opscope.compiler.commands.netlist import netlist_command
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary
from opscope.simulator.__main__ import main as simulator_main
from opscope.simulator.api import BadInput, Device, ProgramRun

CLOSE = {"type": "AllCloseHw", "rtol": 0.02, "atol": 0.02, "check_pct": 1.0, "check_pcc": 0.999}
ROW = {"t": 1, "grid_size": [1, 1], "mblock": [1, 1], "ublock": [1, 1]}
ZERO = {"rd_ptr_global": "$zero", "wr_ptr_global": "$zero"}


def queue(source: str, kind: str, entries: int, address: int) -> dict[str, Any]:
    return {
        **ROW,
        "input": source,
        "type": kind,
        "entries": entries,
        "df": "Float16_b",
        "target_device": 0,
        "loc": "dram",
        "dram": [[0, address]],
    }


def op(kind: str, column: int, *inputs: str, **more: Any) -> dict[str, Any]:
    formats = {"in_df": ["Float16_b"] * len(inputs), **dict.fromkeys(("acc_df", "out_df", "intermed_df"), "Float16_b")}
    return {
        **ROW,
        "type": kind,
        "grid_loc": [0, column],
        "inputs": list(inputs),
        **formats,
        "math_fidelity": "HiFi4",
        **more,
    }


def execute(graph: str, **settings: dict[str, Any]) -> dict[str, Any]:
    return {"execute": {"graph_name": graph, "queue_settings": settings}}


def program(graph: str, **settings: dict[str, Any]) -> list[Any]:
    counted = {**settings, "x": {"rd_ptr_local": "$read", "rd_ptr_global": "$read"}} if graph != "opt_2" else settings
    return [
        {"param": ["$clear"]},
        {"var": {"$zero": 0}},
        {"staticvar": {"$read": 0}},
        execute(graph, **counted),
        {"varinst": ["$read", "incwrap", 2, 8]},
    ]


def training() -> dict[str, Any]:
    """y = x + w for two inputs, then the sum of x * x as the gradient, then w = tanh(w + sum)."""
    stays = {"prologue": True, **ZERO}
    return {
        "devices": {"arch": "wormhole_b0"},
        "queues": {
            "x": queue("HOST", "queue", 4, 0x10000000),
            "w": queue("update", "ram", 1, 0x11000000),
            "y": queue("forward", "queue", 4, 0x12000000),
            "sum": queue("gradient", "ram", 1, 0x13000000),
        },
        "graphs": {
            "fwd_0": {"target_device": 0, "input_count": 2, "forward": op("add", 0, "x", "w")},
            "bwd_1": {"target_device": 0, "input_count": 2, "gradient": op("multiply", 0, "x", "x", gradient_op=True)},
            "opt_2": {
                "target_device": 0,
                "input_count": 1,
                "moved": op("add", 0, "w", "sum"),
                "update": op("tanh", 1, "moved"),
            },
        },
        "programs": [
            {"fwd": program("fwd_0", w=stays)},
            {"bwd": program("bwd_1", sum={**stays, "epilogue": True, "zero": "$clear"})},
            {"opt": program("opt_2", w=ZERO, sum=ZERO)},
        ],
        "test-config": {
            "comparison-config": CLOSE,
            "stimulus-config": {"type": "Uniform", "uniform_lower_bound": -0.5, "uniform_upper_bound": 0.5},
        },
    }


def text_of(raw: dict[str, Any]) -> str:
    return yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False)


def never(data: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    raise AssertionError("a netlist with state is run by its programs")


def simulator_of_one_pass(data: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return Device("n150").load(data).run(inputs).outputs


def steps(data: bytes, script: Sequence[Step]) -> list[np.ndarray]:
    return ProgramRun(Device("n150").load(data)).do(script)


def test_two_rounds_of_training_are_those_of_numpy() -> None:
    """The numbers by hand, against what the device popped; and the golden agrees with the device."""
    raw = training()
    popped: list[np.ndarray] = []

    def keep(data: bytes, script: Sequence[Step]) -> list[np.ndarray]:
        assert [step.name for step in script if step.action == "push"] == ["x", "x", "w", "x", "x"]
        popped.extend(steps(data, script))
        return popped

    verdict = run_test_config(text_of(raw), never, keep)
    assert (verdict.why, verdict.passed, verdict.queues, verdict.rounds) == ("", True, ("w", "y", "sum"), 2)
    config = configs.read(raw)
    x = [input_of(raw, config, 0, "x", number) for number in range(4)]
    w, expected = input_of(raw, config, 0, "w"), []
    for first, second in (x[:2], x[2:]):
        outputs, gradient = [first + w, second + w], first * first + second * second
        w = np.tanh(w + gradient)
        expected += [w, *outputs, gradient]
    assert len(popped) == len(expected) == verdict.inputs == 8
    for got, wanted in zip(popped, expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=0.02)


def test_programs_are_given_the_parameters_of_test_args(tmp_path: Path) -> None:
    raw = training()
    for each in raw["programs"]:
        for lines in each.values():
            lines[0]["param"].append("$p_microbatch_size")
            lines[-1]["varinst"][2] = "$p_microbatch_size"
    raw["test-config"]["test-args"] = {"microbatch_size": 2, "minibatch_count": 5}
    assert configs.read(raw).parameters == {"p_microbatch_size": 2}
    scripts: list[Sequence[Step]] = []

    def keep(data: bytes, script: Sequence[Step]) -> list[np.ndarray]:
        scripts.append(script)
        return steps(data, script)

    assert run_test_config(text_of(raw), never, keep).passed
    assert [step.value for step in scripts[0] if step.action == "run"] == [{"p_microbatch_size": 2}] * 6
    assert [step.name for step in scripts[0] if step.action == "push"].count("x") == 4  # each input once
    file = tmp_path / "training.yaml"
    file.write_text(text_of(raw))
    assert CliRunner().invoke(netlist_command, [str(file), "--run-test-config"]).exit_code == 0


def test_what_goes_on_from_a_round_to_no_numbers_is_not_run() -> None:
    raw = training()
    raw["graphs"]["fwd_0"]["forward"]["type"] = "subtract"
    raw["graphs"]["fwd_0"]["root"] = op("sqrt", 1, "forward")
    raw["queues"]["y"]["input"] = "root"
    raw["test-config"]["stimulus-config"]["overrides"] = {
        "x": {"type": "Uniform", "uniform_lower_bound": 0.5, "uniform_upper_bound": 1.0},
        "w": {"type": "Constant", "constant_value": 0.25},  # tanh(0.25 + x * x + ...) is more than x
    }
    verdict = run_test_config(text_of(raw), never, steps)
    assert (verdict.why, verdict.passed, verdict.rounds, verdict.inputs) == ("", True, 1, 4)
    raw["test-config"]["stimulus-config"]["overrides"]["w"]["constant_value"] = 2
    with pytest.raises(NotModelledError, match="y: expected numbers, got NaN or infinity"):
        run_test_config(text_of(raw), never, steps)


def one_op(name: str, kind: str, *inputs: str, count: int = 1, t: int = 1) -> dict[str, Any]:
    """A graph of one op that goes through so many inputs of t matrices."""
    return {"target_device": 0, "input_count": count, name: op(kind, 0, *inputs, t=t)}


def views() -> dict[str, Any]:
    """Four inputs go one by one to a ram, and leave it by another view of it, as one entry of four matrices."""
    return {
        **training(),
        "queues": {
            "x": queue("HOST", "queue", 4, 0x10000000),
            "cache": queue("copied", "ram", 4, 0x11000000),
            "whole": {**queue("HOST", "ram", 1, 0x11000000), "t": 4, "alias": "cache"},
            "y": {**queue("doubled", "queue", 2, 0x12000000), "t": 4},
        },
        "graphs": {
            "in_0": one_op("copied", "nop", "x", count=4),
            "out_0": one_op("doubled", "add", "whole", "whole", t=4),
        },
        "programs": [
            {
                "fill": [
                    {"var": {"$zero": 0, "$one": 1}},
                    execute(
                        "in_0",
                        x={"rd_ptr_local": "$zero", "rd_ptr_global": "$zero"},
                        cache={"wr_ptr_global": "$zero", "global_wrptr_autoinc": "$one"},
                    ),
                ]
            },
            {
                "read": [
                    {"var": {"$zero": 0}},
                    execute("out_0", whole={"read_only": True, "wr_ptr_global": "$zero", "rd_ptr_global": "$zero"}),
                ]
            },
        ],
    }


def test_two_views_of_a_ram_show_the_same_memory() -> None:
    raw = views()
    device = ProgramRun(Device("n150").load(binary.write(to_binary(parse(text_of(raw)), parameters={}).binary)))
    x = [np.full((1, 32, 32), number, np.float32) for number in (1, 2, 3, 4)]
    for value in x:
        device.push("x", value)
    with pytest.raises(BadInput, match="push: expected a queue that the host fills, got whole, which cache fills"):
        device.push("whole", np.zeros((4, 32, 32), np.float32))
    with pytest.raises(BadInput, match="expected entry 0 of cache to be written before whole reads it"):
        device.run("read")
    device.run("fill")
    device.run("read")
    np.testing.assert_array_equal(device.pop("y"), 2 * np.concatenate(x))
    verdict = run_test_config(text_of(raw), never, steps)
    assert (verdict.why, verdict.passed, verdict.queues) == ("", True, ("cache", "y"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"alias": "lost"}, "expected a ram as whole is, with memory of its own, got lost"),
        ({"alias": "y"}, "expected a ram as whole is, with memory of its own, got y"),
        ({"dram": [[0, 0x13000000]]}, r"expected addresses of cache, \(\(0, 285212672\),\), got"),
        ({"t": 3}, "expected entries that make up whole ones of cache, 4 of t 1, got 1 of t 3"),
        ({"alias": None}, "alias: expected a name, got None"),
    ],
)
def test_a_view_of_other_memory_is_refused(change: dict[str, Any], why: str) -> None:
    raw = views()
    raw["queues"]["whole"] |= change
    with pytest.raises(CompilerInputError, match=f"^queues.whole.*{why}"):
        to_binary(parse(text_of(raw)), parameters={})


def test_rams_of_one_address_without_an_alias_overlap() -> None:
    raw = views()
    del raw["queues"]["whole"]["alias"]
    with pytest.raises(CompilerInputError, match="expected DRAM of its own"):
        to_binary(parse(text_of(raw)), parameters={})


@pytest.mark.parametrize(("stride", "expected"), [(0, [3, 9]), (1, [3, 2]), (2, [3, 9])])
def test_the_pointer_of_a_ram_moves_by_the_programs_stride_alone(stride: int, expected: list[int]) -> None:
    """tt-budabackend: common/tt_ram.cpp; three inputs into a ram of two entries, whose first content is 9."""
    raw = views()
    raw["queues"]["cache"]["entries"], raw["graphs"]["in_0"]["input_count"] = 2, 3
    raw["queues"]["whole"] |= {"t": 2}
    raw["queues"]["y"] |= {"t": 2}
    raw["graphs"]["out_0"]["doubled"] |= {"t": 2}
    raw["programs"][0]["fill"][0]["var"]["$one"] = stride
    device = ProgramRun(Device("n150").load(binary.write(to_binary(parse(text_of(raw)), parameters={}).binary)))
    for value in (1, 2, 3):
        device.push("x", np.full((1, 32, 32), value, np.float32))
    device.queues["cache"].slots = {number: np.full((1, 32, 32), 9, np.float32) for number in (0, 1)}
    device.run("fill")
    device.run("read")
    assert device.pop("y")[:, 0, 0].tolist() == [2 * value for value in expected]


def test_an_op_reads_what_it_wrote_for_the_input_before() -> None:
    """w = w + x for each of three inputs: the op waits for itself through a ram alone."""
    raw = training()
    raw["queues"] = {"x": queue("HOST", "queue", 4, 0x10000000), "w": queue("added", "ram", 1, 0x11000000)}
    raw["graphs"] = {"sum_0": one_op("added", "add", "x", "w", count=3)}
    raw["programs"] = [{"run": program("sum_0", w=ZERO)}]
    device = ProgramRun(Device("n150").load(binary.write(to_binary(parse(text_of(raw)), parameters={}).binary)))
    device.push("w", np.full((1, 32, 32), 10, np.float32))
    for value in (1, 2, 3):
        device.push("x", np.full((1, 32, 32), value, np.float32))
    device.run("run")
    assert (device.pop("w") == 16).all()
    verdict = run_test_config(text_of(raw), never, steps)
    assert (verdict.why, verdict.passed, verdict.queues) == ("", True, ("w",))


def test_programs_run_behind_those_that_fill_their_queues() -> None:
    """The file has them the other way round: the host calls programs as it likes."""
    raw = training()
    raw["queues"] = {
        "x": queue("HOST", "queue", 4, 0x10000000),
        "m": queue("first", "queue", 4, 0x11000000),
        "y": queue("second", "queue", 4, 0x12000000),
    }
    raw["graphs"] = {"b_0": one_op("second", "add", "m", "m", count=2), "a_0": one_op("first", "abs", "x", count=2)}
    pointers = {"rd_ptr_local": "$zero", "rd_ptr_global": "$zero"}
    raw["programs"] = [
        {"later": [{"var": {"$zero": 0}}, execute("b_0", m=pointers)]},
        {"sooner": [{"var": {"$zero": 0}}, execute("a_0", x=pointers)]},
    ]
    plan = to_binary(parse(text_of(raw)), parameters={}).binary.plan
    assert [program.name for program in plan.programs] == ["sooner", "later"]
    assert [epoch.graph for epoch in plan.epochs] == ["a_0", "b_0"]
    verdict = run_test_config(text_of(raw), simulator_of_one_pass, steps)
    assert (verdict.why, verdict.passed, verdict.queues) == ("", True, ("y",))
    raw["programs"] = [{"both": [{"var": {"$zero": 0}}, execute("b_0", m=pointers), execute("a_0", x=pointers)]}]
    with pytest.raises(CompilerInputError, match=r"queues\.m: expected a_0 to run before b_0, got it after"):
        to_binary(parse(text_of(raw)), parameters={})


@pytest.mark.parametrize("fault", ["no sum", "old weights", "first entry twice"])
def test_a_device_without_memory_does_not_pass(fault: str) -> None:
    raw = training()

    def wrong(data: bytes, script: Sequence[Step]) -> list[np.ndarray]:
        run = ProgramRun(Device("n150").load(data))
        popped = []
        for step in script:
            if step.action == "run" and fault == "old weights":
                run.queues["w"].slots = {0: np.zeros((1, 32, 32), np.float32)}
            if step.name == "bwd" and fault == "no sum":
                run._add = run._fill
            if step.name == "x" and fault == "first entry twice" and step.action == "push":
                step = Step("push", "x", script[0].value)
            popped += [] if step.action != "pop" else [run.pop(step.name)]
            if step.action != "pop":
                run.do([step])
        return popped

    verdict = run_test_config(text_of(raw), never, wrong)
    assert not verdict.passed
    assert verdict.why.startswith("w, round 0: 1 of 1 tiles")


def test_a_sum_that_nobody_started_is_no_number() -> None:
    raw = training()
    raw["programs"][1]["bwd"][3]["execute"]["queue_settings"]["sum"]["zero"] = False
    with pytest.raises(NotModelledError, match="sum: expected a sum to go on from, got none"):
        run_test_config(text_of(raw), never, steps)
    run = ProgramRun(Device("n150").load_decoded(to_binary(parse(text_of(raw))).binary))
    for _ in range(2):
        run.push("x", np.ones((1, 32, 32), np.float32))
    with pytest.raises(BadInput, match="expected a sum in sum to go on from, got none; try to set its zero"):
        run.run("bwd")
    with pytest.raises(BadInput, match="run: expected entry 0 of w to be written, got none; try push"):
        run.run("fwd")
    with pytest.raises(BadInput, match="pop: expected an entry in sum, got none"):
        run.pop("sum")
    with pytest.raises(NotModelledError, match="got programs that keep a state"):
        run_test_config(text_of(training()), never)


@pytest.mark.slow
def test_the_command_runs_the_programs(tmp_path: Path) -> None:
    file = tmp_path / "training.yaml"
    file.write_text(text_of(training()))
    result = CliRunner().invoke(netlist_command, [str(file), "--run-test-config"])
    assert (result.exit_code, result.output) == (0, "passed: w, y, sum; 8 entries of 2 runs of its programs compared\n")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            {"run": "fwd"},
            'expected a list of ["push", QUEUE, ARRAY], ["run", PROGRAM, {PARAMETER: NUMBER}], ["pop", QUEUE]',
        ),
        ([["run", "fwd", {"p_count": "two"}]], 'expected a list of ["push", QUEUE, ARRAY]'),
        ([["pop", "y", {"p_count": 2}]], 'expected a list of ["push", QUEUE, ARRAY]'),
        ([["push", "x", "y"]], "expected an array of --inputs (none), got 'y'"),
        ([["push", "x"]], "steps: expected push with an array, run or pop, got 'push' of x"),
        ([["run", "walk"]], "run: expected a program of fwd, bwd, opt, got 'walk'"),
    ],
)
def test_steps_that_are_none_are_one_line(
    tmp_path: Path, lines: Any, message: str, capsys: pytest.CaptureFixture
) -> None:
    from opscope.compiler.target import binary

    program, file = tmp_path / "p.ttnn", tmp_path / "steps.json"
    program.write_bytes(binary.write(to_binary(parse(text_of(training()))).binary))
    file.write_text(json.dumps(lines))
    assert simulator_main([str(program), "--steps", str(file)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
