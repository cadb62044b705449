"""The rows, rates, causes and notes of a comparison in full, of outcomes that are made by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from opscope.base.labels import Label
from opscope.harness.record.stages import FAILED
from opscope.reports.compare.diff import Diff, Row, compare, labelled_rows
from opscope.reports.compare.outcomes import Outcome, RunView
from opscope.reports.tests.nights import START
from opscope.wire.diff import series_of

ORIGIN = {
    "revision": "0123456789abcdef",
    "dirty": False,
    "branch": "main",
    "backend_revision": "",
    "host": "laptop",
    "backend_dirty": False,
    "python": "3.11",
    "compiler": "buda 1",
    "versions": {"jax": "1"},
    "options": {"dtype": "float32"},
}


def op(name: str, status: str = "success", **more: Any) -> Outcome:
    values: dict[str, Any] = {
        "op_id": name,
        "op_name": f"stablehlo.{name}",
        "op_kind": "eltwise",
        "types": "f32[8]",
        "status": status,
        "stage": "compare",
        "uses_of": {"m": 1},
        "ran_on": "simulator" if status == "success" else "none",
    }
    values |= more
    if status in FAILED:  # a word in place of a fingerprint
        parts = (values.get("crash") or status, values.get("failed_stage") or values["stage"], values["op_name"])
        values.setdefault("cause", values.get("signature") or " ".join(parts))
    return Outcome(**values)


def run(*ops: Outcome, **more: Any) -> RunView:
    values: dict[str, Any] = {
        "run_id": "run",
        "place": "folder",
        "models": ("m",),
        "backend": "reference",
        "arch": "n150",
        "started": START,
        "outcome": "complete",
        "origin": ORIGIN,
        "ops": {each.op_id: each for each in ops},
        "series": "s",
    }
    return RunView(**values | more)


def row_of(old: Outcome | None, new: Outcome | None) -> Row:
    [row] = compare(run(*filter(None, [old])), run(*filter(None, [new]))).rows
    return row


def label_and_note(old: Outcome | None, new: Outcome | None) -> tuple[str, str]:
    row = row_of(old, new)
    return row.label, row.note


def test_a_row_has_both_sides() -> None:
    old = op(
        "add",
        "run_failed",
        failed_stage="run",
        error="no kernel",
        pcc=0.5,
        cycles=7,
        compile_seconds=0.25,
        expected="notyet: before",
        uses_of={"n": 2},
        repro="before",
        signature="abc",
    )
    new = op("add", pcc=0.75, cycles=9, compile_seconds=0.5, expected="notyet: now", uses_of={"m": 3}, repro="now")
    assert asdict(row_of(old, new)) == {
        "label": "FIXED",
        "op_id": "add",
        "op_name": "stablehlo.add",
        "op_kind": "eltwise",
        "types": "f32[8]",
        "models": ("m", "n"),
        "uses": 3,
        "status_a": "run_failed",
        "status_b": "success",
        "stage_a": "compare",
        "stage_b": "compare",
        "failed_stage": "run",
        "error_a": "no kernel",
        "error_b": "",
        "cluster": "abc",
        "pcc_a": 0.5,
        "pcc_b": 0.75,
        "cycles_a": 7,
        "cycles_b": 9,
        "compile_ms_a": 250.0,
        "compile_ms_b": 500.0,
        "known": "",
        "flaky": False,
        "note": "a limitation still names it: notyet: now",
        "repro": "now",
        "owner": "",
        "remark": "",
        "acknowledged": False,
    }
    gone = asdict(row_of(old, None))
    assert (gone["label"], gone["status_a"], gone["repro"], gone["uses"]) == ("NEVER-RUN", "run_failed", "before", 2)
    assert {gone[f"{name}_b"] for name in ("status", "stage", "error")} == {""}
    assert {gone[f"{name}_b"] for name in ("pcc", "cycles", "compile_ms")} == {None}
    came = asdict(row_of(None, op("add", "crashed", expected="never: so", crash="SIGSEGV")))
    assert (came["label"], came["note"], came["known"]) == ("NEW", "first attempt", "never: so")
    assert (came["failed_stage"], came["cluster"]) == ("compare", "SIGSEGV compare stablehlo.add")
    assert {came[f"{name}_a"] for name in ("status", "stage", "error")} == {""}
    assert {came[f"{name}_a"] for name in ("pcc", "cycles", "compile_ms")} == {None}
    assert row_of(op("add"), op("add", compile_seconds=0.0)).compile_ms_b is None
    # Where both go wrong the later cause is named.
    both = row_of(old, op("add", "crashed", failed_stage="run", signature="def"))
    assert (both.cluster, both.note) == ("def", "run_failed at run before")
    assert label_and_note(old, op("add", "run_failed", failed_stage="run", signature="def")) == (
        "REASON-CHANGED",
        "a different error at the same stage",
    )


@pytest.mark.parametrize("before", [False, True, None])
@pytest.mark.parametrize("now", [False, True, None])
def test_a_row_is_flaky_if_one_side_is(before: bool | None, now: bool | None) -> None:
    if before is None and now is None:
        return
    sides = [None if flaky is None else op("add", flaky=flaky) for flaky in (before, now)]
    assert row_of(*sides).flaky is bool(before or now)


RIGHT = {"pcc": 1 - 2**-14, "cycles": 1000}


@pytest.mark.parametrize(
    ("before", "now", "label", "note"),
    [
        # A drop of just 0.001, and a distance from 1 that is just tenfold.
        ({"pcc": 0.002}, {"pcc": 0.001}, Label.PCC_DROP, "1 - PCC: 1.0e+00 before, 1.0e+00 now"),
        (RIGHT, {"pcc": 1 - 10 * 2**-14}, Label.PCC_DROP, "1 - PCC: 6.1e-05 before, 6.1e-04 now"),
        (RIGHT, {"pcc": 1 - 9.9 * 2**-14}, Label.SAME, ""),
        ({"pcc": 0.9}, {"pcc": None}, Label.SAME, ""),
        ({"pcc": None}, {"pcc": 0.9}, Label.SAME, ""),
        ({"cycles": 1000}, {"cycles": None}, Label.SAME, ""),
        ({"cycles": None}, {"cycles": 1000}, Label.SAME, ""),
        ({"cycles": 0}, {"cycles": 1000}, Label.SAME, ""),
        ({"cycles": 1000}, {"cycles": 2500}, Label.SLOWER, "150 % more cycles"),
        (
            {"pcc": 0.9, "cycles": 1000},
            {"pcc": 0.5, "cycles": 2000},
            Label.PCC_DROP,
            "1 - PCC: 1.0e-01 before, 5.0e-01 now",
        ),
    ],
)
def test_two_right_results(before: dict[str, Any], now: dict[str, Any], label: Label, note: str) -> None:
    assert label_and_note(op("add", **before), op("add", **now)) == (label, note)


def test_an_op_that_is_right_in_both_is_as_slow_as_its_history_says() -> None:
    a, b = run(op("add"), op("sub")), run(op("add"), op("sub"))
    rows = compare(a, b, lambda _, new: "since monday" if new.op_id == "sub" else "").rows
    assert [(row.op_id, row.label, row.note) for row in rows] == [
        ("sub", "SLOWER", "since monday"),
        ("add", "SAME", ""),
    ]


def test_an_unattempted_op_has_no_result_to_compare() -> None:
    skipped = op("add", "not_run")
    assert label_and_note(skipped, op("add")) == ("ADDED", "")
    assert label_and_note(None, op("add")) == ("ADDED", "")
    assert label_and_note(None, op("add", "crashed")) == ("NEW", "first attempt")
    assert label_and_note(skipped, op("add", "crashed")) == ("NEW", "not run before")
    assert label_and_note(op("add"), op("add", "crashed")) == ("NEW", "")
    assert label_and_note(op("add", "crashed"), skipped) == ("NEVER-RUN", "not run")
    missing = run(skipped, missing=("model z", "shard 2", "shard 3"))
    [row] = compare(run(op("add")), missing).rows
    assert row.note == "not run (shard 2, shard 3 missing)"
    assert [row.label for row in labelled_rows(run(op("add")), run(op("add"), op("b")), None, {Label.SAME})] == [
        "ADDED"
    ]


@pytest.mark.parametrize(
    ("uses", "missing", "label", "note"),
    [
        ({"m": 1, "x": 1}, (), Label.VANISHED, ""),
        ({}, (), Label.VANISHED, ""),
        ({"x": 1}, ("model x",), Label.NEVER_RUN, "its models are missing from the later night"),
        (
            {"x": 1, "w": 1},
            ("model x", "model w", "shard 1"),
            Label.NEVER_RUN,
            "its models are missing from the later night",
        ),
        ({"x": 1, "w": 1}, ("model x",), Label.NEVER_RUN, "its models are not in the later run"),
    ],
)
def test_an_op_that_the_later_run_lacks(uses: dict[str, int], missing: tuple[str, ...], label: str, note: str) -> None:
    [row] = compare(run(op("add", uses_of=uses)), run(missing=missing)).rows
    assert (row.label, row.note) == (label, note)


def test_rows_are_sorted_by_urgency_models_uses_and_id() -> None:
    bad = [
        op("d", "crashed"),
        op("c", "crashed"),
        op("b", "crashed", uses_of={"m": 4}),
        op("a", "crashed", uses_of={"m": 1, "n": 1}),
        op("right"),
    ]
    result = compare(run(), run(*bad))
    assert [row.op_id for row in result.rows] == ["a", "b", "c", "d", "right"]
    assert (dict(result.counts), result.news) == ({"NEW": 4, "ADDED": 1}, 4)


NOT_JUDGED = "compile times are not judged, because that needs five comparable runs in the database"


def test_notes_name_partial_nights() -> None:
    night = run(missing=("model x", "shard 2"), outcome="partial")
    partial = "night is partial: model x, shard 2 missing; ops that did not run are not gone"
    assert compare(run(), run()).notes == (NOT_JUDGED,)
    assert compare(run(), run(), lambda _, new: "").notes == ()
    assert compare(night, run(outcome="stopped")).notes == (
        NOT_JUDGED,
        f"the earlier {partial}",
        "the later run is stopped; ops without a result count as not run",
    )


def test_rates_by_place_and_like_for_like() -> None:
    a = run(op("add", uses_of={"m": 2}), op("exp", "run_failed", uses_of={"m": 3}), op("idle", "not_run"), op("fell"))
    b = run(
        op("add", uses_of={"m": 5}),
        op("exp", uses_of={"m": 7}, ran_on="host"),
        op("idle"),
        op("new", "crashed"),
        op("fell", "skipped"),
    )

    def rate(name: str, right: int, attempted: int) -> dict[str, Any]:
        return {f"right_{name}": right, f"attempted_{name}": attempted, f"rate_{name}": right / attempted}

    def row(scope: str, place: str, **counts: tuple[int, int]) -> dict[str, Any]:
        result: dict[str, Any] = {"scope": scope, "ran_on": place}
        for name, pair in counts.items():
            result |= rate(name, *pair)
        return result

    everything = "all", "like for like"
    assert tuple(map(vars, compare(a, b).rates)) == (
        row(everything[0], "host", ops_a=(0, 3), uses_a=(0, 6), ops_b=(1, 4), uses_b=(7, 14)),
        row(everything[0], "simulator", ops_a=(2, 3), uses_a=(3, 6), ops_b=(2, 4), uses_b=(6, 14)),
        row(everything[1], "host", ops_a=(0, 2), uses_a=(0, 12), ops_b=(1, 2), uses_b=(7, 12)),
        row(everything[1], "simulator", ops_a=(1, 2), uses_a=(5, 12), ops_b=(1, 2), uses_b=(5, 12)),
    )
    nothing: dict[str, Any] = {}
    for name in ("ops_a", "uses_a", "ops_b", "uses_b"):
        nothing |= {f"right_{name}": 0, f"attempted_{name}": 0, f"rate_{name}": None}
    assert tuple(map(vars, compare(run(), run(op("idle", "not_run"))).rates)) == tuple(
        {"scope": scope, "ran_on": "none", **nothing} for scope in everything
    )


def test_causes_are_sorted_by_the_models_that_they_block_and_flaky_ones_stand_last() -> None:
    bad = {"signature": "one", "stage": "split", "error": "it broke"}
    a = run(op("gone", "run_failed", signature="two", error="before", uses_of={"m": 9}))
    b = run(
        op("x", "run_failed", uses_of={"m": 2, "n": 1}, **bad),
        op("y", "crashed", uses_of={"o": 1}, **bad),
        op("f", "crashed", flaky=True, uses_of={"m": 1, "n": 1, "o": 1, "p": 1}, **bad),
        op("z", "timeout", uses_of={"m": 1}),
    )
    assert tuple(map(vars, compare(a, b).clusters)) == (
        {
            "cluster": "one",
            "flaky": False,
            "stage": "split",
            "error": "it broke",
            "labels": {"NEW": 1, "FIRST": 1},
            "ops": 2,
            "uses": 4,
            "models": ("m", "n", "o"),
        },
        {
            "cluster": "two",
            "flaky": False,
            "stage": "compare",
            "error": "before",
            "labels": {"VANISHED": 1},
            "ops": 1,
            "uses": 9,
            "models": ("m",),
        },
        {
            "cluster": "timeout compare stablehlo.z",
            "flaky": False,
            "stage": "compare",
            "error": "",
            "labels": {"NEW": 1},
            "ops": 1,
            "uses": 1,
            "models": ("m",),
        },
        {
            "cluster": "one",
            "flaky": True,
            "stage": "split",
            "error": "it broke",
            "labels": {"NEW": 1},
            "ops": 1,
            "uses": 4,
            "models": ("m", "n", "o", "p"),
        },
    )


def test_changes_besides_the_ops() -> None:
    other = ORIGIN | {
        "dirty": True,
        "backend_revision": "fedcba9876543210",
        "host": "server",
        "compiler": "buda 2",
        "versions": {"jax": "1", "torch": "2"},
        "options": {"dtype": "bfloat16"},
    }
    b = run(origin=other, models=("n", "o"), arch="p150", backend="xla")
    assert compare(run(), run()).changes == ()
    assert {change.what: (change.a, change.b) for change in compare(run(), b).changes} == {
        "compiler": ("buda 1", "buda 2"),
        "compiler revision": ("", "fedcba987654"),
        "revision": ("0123456789ab", "0123456789ab (changed since)"),
        "backend": ("reference", "xla"),
        "arch": ("n150", "p150"),
        "models": ("m", "n, o"),
        "host": ("laptop", "server"),
        "version torch": (None, "2"),
        "option dtype": ("float32", "bfloat16"),
    }


def test_a_gate_fails_for_news_that_nobody_knows() -> None:
    def news(*later: Outcome) -> Diff:
        return compare(run(op("a", pcc=1.0), op("b", "crashed")), run(*later))

    assert news(op("a", pcc=0.5)).news == 1
    assert news(op("a", pcc=0.5, flaky=True)).news == 0
    assert news(op("b", "timeout")).news == 1
    assert news(op("b", "timeout", expected="notyet: slow")).news == 0
    assert news(op("b", "crashed")).news == 0
    printed = series_of(news(op("a", pcc=0.5)), None).model_dump(mode="json")
    side = {
        "run_id": "run",
        "place": "folder",
        "started": "2026-11-01T02:00:00+00:00",
        "backend": "reference",
        "arch": "n150",
        "models": ["m"],
        "outcome": "complete",
    }
    assert (printed["a"], printed["b"]) == (side | {"ops": 2}, side | {"ops": 1})
    assert (printed["news"], printed["counts"], printed["isolation"]) == (1, {"PCC-DROP": 1, "VANISHED": 1}, [])
    assert [row["news"] for row in printed["rows"]] == [True, False]
