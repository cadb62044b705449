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
from opscope.simulator.__main__ import main as simulator_main
from opscope.simulator.api import BadInput, Device, ProgramRun

CLOSE = {"type": "AllCloseHw", "rtol": 0.02, "atol": 0.02, "check_pct": 1.0, "check_pcc": 0.999}
ROW = {"t": 1, "grid_size": [1, 1], "mblock": [1, 1], "ublock": [1, 1]}
ZERO = {"rd_ptr_global": "$zero", "wr_ptr_global": "$zero"}


def queue(source: str, kind: str, entries: int, address: int) -> dict[str, Any]:
    return {**ROW, "input": source, "type": kind, "entries": entries, "df": "Float16_b", "target_device": 0,
        "loc": "dram", "dram": [[0, address]]}  # fmt: skip


def op(kind: str, column: int, *inputs: str, **more: Any) -> dict[str, Any]:
    formats = {"in_df": ["Float16_b"] * len(inputs), **dict.fromkeys(("acc_df", "out_df", "intermed_df"), "Float16_b")}
    return {**ROW, "type": kind, "grid_loc": [0, column], "inputs": list(inputs), **formats, "math_fidelity": "HiFi4",
        **more}  # fmt: skip


def execute(graph: str, **settings: dict[str, Any]) -> dict[str, Any]:
    return {"execute": {"graph_name": graph, "queue_settings": settings}}


def program(graph: str, **settings: dict[str, Any]) -> list[Any]:
    counted = {**settings, "x": {"rd_ptr_local": "$read", "rd_ptr_global": "$read"}} if graph != "opt_2" else settings
    return [
        {"param": ["$clear"]}, {"var": {"$zero": 0}}, {"staticvar": {"$read": 0}}, execute(graph, **counted),
        {"varinst": ["$read", "incwrap", 2, 8]},
    ]  # fmt: skip


def training() -> dict[str, Any]:
    """y = x + w for two inputs, then the sum of x * x as the gradient, then w = tanh(w + sum)."""
    stays = {"prologue": True, **ZERO}
    return {
        "devices": {"arch": "wormhole_b0"},
        "queues": {
            "x": queue("HOST", "queue", 4, 0x10000000), "w": queue("update", "ram", 1, 0x11000000),
            "y": queue("forward", "queue", 4, 0x12000000), "sum": queue("gradient", "ram", 1, 0x13000000),
        },
        "graphs": {
            "fwd_0": {"target_device": 0, "input_count": 2, "forward": op("add", 0, "x", "w")},
            "bwd_1": {"target_device": 0, "input_count": 2, "gradient": op("multiply", 0, "x", "x", gradient_op=True)},
            "opt_2": {"target_device": 0, "input_count": 1, "moved": op("add", 0, "w", "sum"),
                "update": op("tanh", 1, "moved")},
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
    }  # fmt: skip


def text_of(raw: dict[str, Any]) -> str:
    return yaml.safe_dump(raw, sort_keys=False)


def never(data: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    raise AssertionError("a netlist with state is run by its programs")


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
                run._add = run._fill  # type: ignore[method-assign]
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
        ({"run": "fwd"}, 'expected a list of ["push", QUEUE, ARRAY], ["run", PROGRAM], ["pop", QUEUE], got other'),
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
