"""The rows that a night's dashboards add up: sums over the ops of one name, by model, and what two nights share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from opscope.reports.compare.outcomes import RunView, from_folder
from opscope.reports.publish import night_counts
from opscope.reports.tests.nights import Op, night, op_id


def view(folder: Path, number: int, ops: Mapping[str, Op]) -> RunView:
    return from_folder(night(folder, number, ops))


def of_one_name(run: RunView) -> RunView:
    """The run as if all its ops were additions."""
    return replace(run, ops={key: replace(op, op_name="stablehlo.add") for key, op in run.ops.items()})


def test_ops_of_one_name_and_end_are_one_row_for_each_model_and_one_for_all(tmp_path: Path) -> None:
    ops = {
        "one": Op(uses={"a": 2, "b": 1}, cycles=10, compile_ms=250.0, more={"l1_peak_bytes": 64, "flaky": True}),
        "two": Op(uses={"a": 3}, cycles=100, compile_ms=500.0, more={"l1_peak_bytes": 32, "flaky": True}),
        "three": Op(uses={"a": 1}),
        "host": Op(uses={"b": 4}, more={"ran_on": "host"}),
        "known": Op("run_failed", uses={"b": 1}, more={"expected": "notyet: here"}),
        "failed": Op("run_failed", uses={"b": 1}),
        "unexpected": Op(uses={"c": 7}, more={"expected": "notyet: here"}),
    }
    result = {
        (model, status, ran_on, expected): tuple(rest)
        for model, name, _, status, _, ran_on, expected, *rest in night_counts.counts(
            of_one_name(view(tmp_path, 1, ops))
        )
        if name == "stablehlo.add"
    }
    nothing = (0, 0, 0, 0.0)
    assert result == {
        ("a", "success", "simulator", False): (3, 6, 2, 2 * 10 + 3 * 100, 64, 0.75),
        ("b", "success", "simulator", False): (1, 1, 1, 10, 64, 0.25),
        ("c", "success", "simulator", False): (1, 7, *nothing),
        ("", "success", "simulator", False): (4, 14, 2, 3 * 10 + 3 * 100, 64, 0.75),
        ("b", "success", "host", False): (1, 4, *nothing),
        ("", "success", "host", False): (1, 4, *nothing),
        ("b", "run_failed", "none", True): (1, 1, *nothing),
        ("", "run_failed", "none", True): (1, 1, *nothing),
        ("b", "run_failed", "none", False): (1, 1, *nothing),
        ("", "run_failed", "none", False): (1, 1, *nothing),
    }


def test_a_model_has_its_ops_and_uses_by_how_they_ended(tmp_path: Path) -> None:
    ops = {
        "right": Op(uses={"a": 2, "b": 3}, more={"flaky": True}),
        "wrong": Op("wrong_result", uses={"a": 5}),
        "idle": Op("not_run", uses={"a": 7}),
        "lost": Op("unsplittable", uses={"a": 11}),
        "more": Op(uses={"a": 13}),
    }
    assert night_counts.models(view(tmp_path, 1, ops)) == {
        "a": {
            "ops": 5,
            "attempted_ops": 4,
            "right_ops": 2,
            "bad_ops": 2,
            "flaky_ops": 1,
            "uses": 38,
            "attempted_uses": 31,
            "right_uses": 15,
            "bad_uses": 16,
        },
        "b": {
            "ops": 1,
            "attempted_ops": 1,
            "right_ops": 1,
            "bad_ops": 0,
            "flaky_ops": 1,
            "uses": 3,
            "attempted_uses": 3,
            "right_uses": 3,
            "bad_uses": 0,
        },
    }


def test_what_two_nights_share_is_weighed_by_the_later_uses(tmp_path: Path) -> None:
    bad = Op("run_failed", uses={"a": 1})
    before = view(
        tmp_path,
        1,
        {
            "stays": Op(uses={"a": 9}),
            "breaks": Op(uses={"a": 9}),
            "mended": bad,
            "moves": Op(uses={"a": 9}),
            "idle": Op(uses={"a": 9}),
            "was_idle": Op("skipped", uses={"a": 9}),
            "gone": Op(uses={"a": 9}),
            "was_lost": Op("unsplittable", uses={"a": 9}),
        },
    )
    now = view(
        tmp_path,
        2,
        {
            "stays": Op(uses={"a": 2, "b": 1}),
            "breaks": Op("run_failed", uses={"a": 3}),
            "mended": Op(uses={"a": 5}),
            "moves": Op(uses={"b": 7}, more={"ran_on": "host"}),
            "idle": Op("not_run", uses={"a": 1}),
            "was_idle": Op(uses={"a": 1}),
            "new": Op(uses={"a": 1}),
            "was_lost": Op(uses={"a": 1}),
        },
    )
    assert op_id("new") not in before.ops
    # Model, place, ops in both, right before and now, uses in both, of those right before and now.
    assert night_counts.pairs(before, now) == [
        ["", "host", 4, 0, 1, 18, 0, 7],
        ["", "simulator", 4, 3, 2, 18, 13, 8],
        ["a", "host", 3, 0, 0, 10, 0, 0],
        ["a", "simulator", 3, 2, 2, 10, 5, 7],
        ["b", "host", 2, 0, 1, 8, 0, 7],
        ["b", "simulator", 2, 2, 1, 8, 8, 1],
    ]
