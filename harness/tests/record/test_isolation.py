"""Ops that alone are told otherwise than inside their model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opscope.base import damage
from opscope.harness.record import isolation
from opscope.harness.record.optest import RunContext, build_test
from opscope.harness.record.records import HeldOp, OpRow, OpTest, Use
from opscope.harness.record.stages import Status

CONTEXT = RunContext("run", "/nowhere")


def alone(op_id: str, status: Status) -> OpTest:
    row = OpRow(op_id=op_id, op_name="stablehlo.tanh", module="m", uses=(Use(model="net", path="main/0"),))
    error = "off" if status is not Status.SUCCESS else None
    return build_test(row, CONTEXT, status=status, started=None, error=error)


def model(run_dir: Path, verdicts: list[tuple[str, str]]) -> OpTest:
    lines = [
        {
            "path": f"main/{n}",
            "op_id": op_id,
            "op_name": "stablehlo.tanh",
            "location": "net (a.py:1)",
            "pcc": 1.0,
            "error": 0.5,
            "pcc_before": 1.0,
            "error_before": 0.0,
            "verdict": verdict,
        }
        for n, (op_id, verdict) in enumerate(verdicts)
    ]
    (run_dir / "values.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    test = alone("model", Status.SUCCESS)
    return test.model_copy(update={"op_name": "model", "intermediates": len(lines), "artifact": "values.jsonl"})


def test_both_kinds_are_labelled_and_nothing_else(tmp_path: Path) -> None:
    whole = model(
        tmp_path,
        [
            ("fine", "right"),
            ("only_alone", "right"),
            ("only_alone", "amplifies"),
            ("both", "jump"),
            ("only_inside", "right"),
            ("only_inside", "jump"),
            ("unsure", "suspect"),
        ],
    )
    tests = [
        alone("fine", Status.SUCCESS),
        alone("only_alone", Status.WRONG_RESULT),
        alone("both", Status.RUN_FAILED),
        alone("only_inside", Status.SUCCESS),
        alone("unsure", Status.WRONG_RESULT),
        alone("absent", Status.CRASHED),
    ]
    artefacts = isolation.of_run(tmp_path, [whole], tests)
    assert {(one.op_id, one.label, one.path) for one in artefacts} == {
        ("only_alone", isolation.ONLY_ALONE, "main/2"),
        ("only_inside", isolation.ONLY_INSIDE, "main/5"),
    }
    assert isolation.lines(artefacts) == [
        (
            isolation.ONLY_ALONE,
            "stablehlo.tanh [only_alone] in net on reference, main/2 (net (a.py:1)): "
            "alone: wrong_result: off; in the model: amplifies",
        ),
        (
            isolation.ONLY_INSIDE,
            "stablehlo.tanh [only_inside] in net on reference, main/5 (net (a.py:1)): "
            "alone: success; in the model: jump",
        ),
    ]
    isolation.write(tmp_path, artefacts[:1])
    assert isolation.of_run(tmp_path, [whole], tests) == artefacts[:1], "what the run wrote counts"


def test_a_model_without_its_values_labels_nothing(tmp_path: Path) -> None:
    whole = model(tmp_path, [("only_alone", "right")])
    (tmp_path / "values.jsonl").unlink()
    assert isolation.of_run(tmp_path, [whole], [alone("only_alone", Status.WRONG_RESULT)]) == []


def test_an_op_without_a_golden_or_another_backend_says_nothing_of_its_model(tmp_path: Path) -> None:
    """Nor is anything said of a model that did not show its values."""
    whole = model(tmp_path, [("b", "right"), ("a", "right"), ("c", "right")])
    tests = [
        alone("a", Status.CRASHED),
        alone("b", Status.WRONG_RESULT),
        alone("c", Status.NO_GOLDEN),
        alone("a", Status.SUCCESS).model_copy(update={"backend": "other"}),
        alone("b", Status.SUCCESS).model_copy(update={"workflow": "full"}),
    ]
    artefacts = isolation.of_run(tmp_path, [whole], tests)
    assert [(one.op_id, one.backend) for one in artefacts] == [("a", "reference"), ("b", "reference")]
    for change in ({"intermediates": 0}, {"intermediates": None}, {"artifact": None}):
        assert isolation.of_run(tmp_path, [whole.model_copy(update=change)], tests) == []


def test_damaged_values_and_a_damaged_list_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage.forget()
    whole, tests = model(tmp_path, [("a", "right")]), [alone("a", Status.CRASHED)]
    (tmp_path / isolation.FILE).write_text('{"artefacts": [{"label": 1}]}')
    assert len(isolation.of_run(tmp_path, [whole], tests)) == 1
    assert "isolation.json: damaged (no isolation artefacts)" in capsys.readouterr().err
    (tmp_path / isolation.FILE).write_text("{")
    assert len(isolation.of_run(tmp_path, [whole], tests)) == 1
    assert "isolation.json: damaged (something else (" in capsys.readouterr().err
    (tmp_path / isolation.FILE).write_text("[]")  # as older runs have it
    assert isolation.of_run(tmp_path, [whole], tests) == []
    (tmp_path / isolation.FILE).unlink()
    (tmp_path / "values.jsonl").write_text("no JSON\n")
    assert isolation.of_run(tmp_path, [whole], tests) == []
    said = capsys.readouterr().err
    assert "values.jsonl: damaged (Expecting value: line 1" in said
    assert "; its model is not compared with its ops" in said
    (tmp_path / "values.jsonl").unlink()
    (tmp_path / "values.jsonl").symlink_to(tmp_path / "gone")
    assert isolation.of_run(tmp_path, [whole], tests) == []
    assert "values.jsonl: damaged (a path that leads out of its folder, or by a link)" in capsys.readouterr().err
    assert damage.losses() == 4


def piece(op_id: str, status: Status, *held: str) -> OpTest:
    """The record of a piece in run `run`."""
    holds = tuple(HeldOp(op_id=each, op_name="stablehlo.tanh", path=f"main/{n}") for n, each in enumerate(held))
    return alone(op_id, status).model_copy(update={"op_name": "window:tanh", "workflow": "windows:4", "holds": holds})


def test_a_piece_is_an_interaction_where_it_fails_and_each_of_its_ops_is_right_alone(tmp_path: Path) -> None:
    by_op = isolation.by_op([alone("a", Status.SUCCESS), alone("b", Status.SUCCESS), alone("red", Status.WRONG_RESULT)])
    tests = [
        piece("both", Status.WRONG_RESULT, "a", "b"),
        piece("refused", Status.COMPILE_FAILED, "a", "a"),
        piece("fine", Status.SUCCESS, "a", "b"),
        piece("one_red", Status.WRONG_RESULT, "a", "red"),
        piece("unknown", Status.WRONG_RESULT, "a", "never_run"),
        piece("single", Status.WRONG_RESULT, "a"),
        piece("no_golden", Status.NO_GOLDEN, "a", "b"),
    ]
    found = isolation.between(tmp_path, [], tests, by_op)
    assert [(one.op_id, one.label, one.path) for one in found] == [
        ("both", isolation.INTERACTION, "main/1"),
        ("refused", isolation.INTERACTION, "main/1"),
    ]
    assert found[0].inside == "wrong_result: off"
    (label, text), _ = isolation.lines(found)
    assert label == "interaction"
    assert "alone: each of its 2 ops right; together: wrong_result: off" in text
    isolation.write(tmp_path, [replace(found[0], level=2)])
    again = isolation.between(tmp_path, [], tests, by_op)
    assert [one.level for one in again] == [2, None], "the run has found where one begins"
    assert isolation.lines(again)[0][1].endswith("together: wrong_result: off, from level 2 on")
    assert "level" not in isolation.lines(again)[1][1]
    other = {(op_id, "another"): test for (op_id, _), test in by_op.items()}
    assert isolation.interactions(tests, other) == [], "verdicts of another backend say nothing"
