"""The values that report.html shows: one row per op, the ladder's cells, the headline figures.

The template (reports/pages/assets/) decides how they look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import Any
from urllib.parse import quote

from opscope.base.document.groups import by_cause, short
from opscope.base.statuses import NOT_ATTEMPTED, NOT_RUN
from opscope.harness.record.causes import cause_of_test
from opscope.harness.record.flags import in_words
from opscope.harness.record.records import OpTest
from opscope.harness.record.result_options import OPTIONS, record_fields
from opscope.harness.record.stages import FAILED, Stage, Status, in_order
from opscope.reports.compare.owned import EVERYBODY, Owned
from opscope.reports.database.rows import NAMED, is_failure, signature
from opscope.reports.records.columns import plain

Row = dict[str, Any]
RESULT = {
    "pcc": "pcc",
    "l2": "relative_l2",
    "max": "max_abs",
    "z": "z_max",
    "z_limit": "z_limit",
    "place": "z_place",
    **{name: name for name in ("passed", "question", "device", "tolerance", "reason")},
}
"""What the page calls a field of a compared result -> the field."""
AS_THEY_ARE = (
    *("backend", "status", "hypothesis", "pcc", "cycles", "cycles_error", "uses", "ran_on", "compiled_by"),
    *("provenance", "expected", "flaky", "pipeline", "repro", "attempt"),
)
"""Fields of a record that the page has by their own names."""
UNTRIED = frozenset({Status.SKIPPED, Status.NOT_RUN})


def op_rows(tests: Sequence[OpTest], owned: Owned = EVERYBODY) -> list[Row]:
    """One row per op, in the order of the manifest; if there are several backends, one per op and backend."""
    several = len({test.backend for test in tests}) > 1
    rows = [plain(_op_row(test, owned)) for test in tests]
    return [row | {"name": f"{row['name']} on {row['backend']}"} for row in rows] if several else rows


def _op_row(test: OpTest, owned: Owned) -> Row:
    tone_of_op = tone(test)
    return {
        **{name: getattr(test, name) for name in AS_THEY_ARE},
        "id": test.op_id,
        "name": test.op_name,
        "kind": test.op_kind or "other",
        "types": signature(test.inputs, test.outputs),
        "tone": tone_of_op,
        "owner": owned.owner_of(test) if tone_of_op in ("bad", "known") else "",
        "furthest": NOT_RUN if test.status in UNTRIED else str(test.stage_reached),
        "failed": str(test.failed_stage or ""),
        "stages": [(str(stage.stage), stage.seconds) for stage in test.stages],
        "seconds": sum(stage.seconds for stage in test.stages),
        "z": test.z_max,
        "device_us": None if test.device_ns is None else test.device_ns / 1000,
        "l1": test.l1_peak_bytes,
        "dram": test.dram_peak_bytes,
        "models": list(test.models),
        "locations": list(dict.fromkeys(location for location in test.locations if location)),
        "params": test.op_params,
        "layouts": [_layout(tensor) for tensor in (*test.inputs, *test.outputs)],
        "results": [
            {name: getattr(check, field) for name, field in RESULT.items()}
            | {"flags": [in_words(flag) for flag in check.flags]}
            for check in test.results
        ],
        "narrowed": list(test.narrowed),
        "card": test.card_type,
        "format": " ".join(filter(None, (test.data_format, test.math_fidelity, *_options(test)))),
        "overwritten": list(test.overwritten_inputs),
        "error": test.error_message or test.crash_kind or (test.expected if is_failure(test) else ""),
        "crash": test.crash_kind or "",
        "cluster": short(cause_of_test(test)),
        "artifact": quote(test.artifact) if test.artifact else "",
        "ir": [],
        "why": [],
    }


def _layout(tensor: Any) -> str:
    """The layout that the compiler chose for a tensor; empty if it has not chosen one."""
    grid = "x".join(map(str, tensor.grid_shape)) if tensor.grid_shape else ""
    return " ".join(filter(None, (tensor.layout, tensor.buffer_type, grid and f"grid {grid}")))


def tone(test: OpTest) -> str:
    """Rates an outcome as `good`, `bad`, `known` (a limitation names it) or `idle` (without a verdict)."""
    if is_failure(test):
        return "bad"
    if test.status in FAILED:
        return "known"
    return "good" if test.right else "idle"


def ladder(rows: Sequence[Row]) -> Row:
    """The ladder: the run's stages, and per op family [unique ops, uses] at each stage, the largest family first."""
    reached = {row["furthest"] for row in rows} | {stage for row in rows for stage, _ in row["stages"]}
    if reached - {NOT_RUN}:
        reached.add(str(Stage.SPLIT))
    climbs = [[stage for stage, _ in row["stages"]] for row in rows]
    stages = [*in_order(reached - {NOT_RUN}, climbs), *([NOT_RUN] if NOT_RUN in reached else [])]
    ops: dict[str, Counter[str]] = {}
    uses: dict[str, Counter[str]] = {}
    for row in rows:
        ops.setdefault(row["kind"], Counter())[row["furthest"]] += 1
        uses.setdefault(row["kind"], Counter())[row["furthest"]] += row["uses"]
    kinds = sorted(ops, key=lambda kind: (-ops[kind].total(), kind))
    body = [
        {
            "kind": kind,
            "cells": [
                {
                    "ops": ops[kind][stage],
                    "uses": uses[kind][stage],
                    "stage": stage,
                    "share": ops[kind][stage] / ops[kind].total(),
                }
                for stage in stages
            ],
            "ops": ops[kind].total(),
            "uses": uses[kind].total(),
        }
        for kind in kinds
    ]
    total = [(sum(ops[kind][stage] for kind in kinds), sum(uses[kind][stage] for kind in kinds)) for stage in stages]
    return {"stages": stages, "rows": body, "total": total, "ops": len(rows), "uses": sum(row["uses"] for row in rows)}


def tiles(
    tests: Sequence[OpTest], models: Sequence[str], rows: Sequence[Row], quiet: Container[tuple[str, str]] = ()
) -> list[Row]:
    """The headline figures, each with label, value, a line below it, and tone; an op on several backends counts once.
    `quiet`: backend and id of the ops that are flaky or acknowledged, which fail as little as in the sentence above
    (first_sentence.py)."""
    attempted = [test for test in tests if test.status not in NOT_ATTEMPTED]
    uses = {row["id"]: row["uses"] for row in rows}
    unexpected = {(row["backend"], row["id"]) for row in rows if row["tone"] == "bad"}
    failing = {op_id for backend, op_id in unexpected if (backend, op_id) not in quiet}
    bad, aside = len(failing), len({op_id for _, op_id in unexpected} - failing)
    expected = len({row["id"] for row in rows if row["tone"] == "known"})
    figures = [
        _tile("unique ops", f"{len(uses):,}", f"{sum(uses.values()):,} uses in {_models(models)}"),
        *_rates(attempted),
        _tile(
            "failing",
            f"{bad:,}",
            "ops that fail unexpectedly" + (f"; flaky or acknowledged: {aside:,}" if aside else ""),
            "bad" if bad else "good",
        ),
        _tile(
            "expected failures",
            f"{expected:,}",
            "ops whose failure a limitation names",
            "known" if expected else "idle",
        ),
    ]
    scored = [
        (result["z"] / result["z_limit"], result["z"], row)
        for row in rows
        for result in row["results"]
        if result["z"] is not None
    ]
    if scored:
        share, z, worst = max(scored, key=lambda figure: figure[0])
        below = f"{share:.2g} of its limit, {worst['name']} {worst['id'][:6]}"
        figures.append(_tile("largest z", f"{z:.3g}", below, "bad" if share > 1 else ""))
    cycles: Counter[str] = Counter()
    for row in rows:
        cycles[row["backend"]] += (row["cycles"] or 0) * row["uses"]
    several = len(cycles) > 1
    of_backends = ((f", {name}" * several, count) for name, count in cycles.items() if count)
    return figures + [_tile(f"device cycles{of}", _short(count), "all uses in sequence") for of, count in of_backends]


def ladders(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """The ladder of each backend of the rows with its name, which is empty where there is one alone."""
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    if len(backends) < 2:
        return [("", ladder(rows))]
    return [(name, ladder([row for row in rows if row["backend"] == name])) for name in backends]


def _rates(attempted: Sequence[OpTest]) -> list[Row]:
    """The rates of each backend: they are shares of its own ops."""
    backends = list(dict.fromkeys(test.backend for test in attempted))
    if len(backends) < 2:
        return _rates_of(attempted, "")
    return [tile for name in backends for tile in _rates_of([t for t in attempted if t.backend == name], f", {name}")]


def _rates_of(attempted: Sequence[OpTest], whose: str) -> list[Row]:
    """One tile per place of execution; results on the host are never added to those on a device, and what a compiler
    alone took is on no place."""
    right = Counter(test.ran_on for test in attempted if test.right)
    total = len(attempted)
    ran = any(test.ran_on != "none" for test in attempted) or not attempted
    places = sorted(right, key=lambda place: -right[place]) or ["device" if ran else "none"]
    return [
        _tile(
            ("passed the last stage" if place == "none" else f"pass rate on {place}") + whose,
            f"{100 * right[place] / total:.1f} %" if total else "-",
            f"{right[place]:,} of {total:,} attempted",
            "good" if right[place] == total else "",
        )
        for place in places
    ]


def _tile(label: str, value: str, below: str, tone: str = "") -> Row:
    return {"label": label, "value": value, "below": below, "tone": tone}


def _models(models: Sequence[str]) -> str:
    return models[0] if len(models) == 1 else f"{len(models)} models"


def _short(number: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:g}"


def failing(rows: Sequence[Row]) -> list[tuple[Row, ...]]:
    """Failing ops grouped by cause; the cause with the most uses comes first."""
    bad = sorted((row for row in rows if row["tone"] == "bad"), key=lambda row: -row["uses"])
    return [group.failures for group in by_cause(bad, lambda row: row["cluster"] or row["id"], lambda row: row["uses"])]


def _options(test: OpTest) -> list[str]:
    """The other options of a record that differ from their default."""
    values = ((name, getattr(test, name)) for name in record_fields() if name in NAMED)
    return [f"{name.replace('_', ' ')} {value}" for name, value in values if value != OPTIONS[name].default]
