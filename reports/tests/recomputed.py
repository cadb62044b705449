"""What nights have to say, computed anew from their journals by pandas: none of it asks the code that says it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from opscope.harness.record.causes import cause_of_test
from opscope.harness.record.store import load_run
from opscope.reports.database.rows import series_text
from opscope.reports.records.night_record import membership

BAD = {"compile_failed", "run_failed", "wrong_result", "no_golden", "timeout", "crashed"}
RIGHT = {"success", "passed"}


def op_tests(runs: Path) -> pd.DataFrame:
    """A row for each op of each night in each series; runs that belong to no night are none."""
    rows: list[dict[str, Any]] = []
    for folder in sorted(path.parent for path in runs.rglob("run.json")):
        member = membership(folder)
        if member is None:
            continue
        run, night = load_run(folder), member.night
        of = run.record
        for test in run.tests:
            rows.append(
                {
                    "night": night.night_id,
                    "date": night.label[:10],
                    "started": night.started,
                    "at": run.record.started,
                    "run": folder.name,
                    "key": series_text(of.backend, of.arch, of.origin.options),
                    "series": f"{of.backend} {of.arch} {of.origin.options.get('data_format') or ''}",
                    "models_missing": bool({*night.models} - {*run.header.models}),
                    "shards": max(night.shards, 1),
                    "shard": member.shard,
                    "whole": run.record.outcome == "complete",
                    "op": test.op_id,
                    "bad": str(test.status) in BAD,
                    "right": str(test.status) in RIGHT,
                    "cause": cause_of_test(test),
                    "reason": (str(test.status), str(test.failed_stage), test.error_signature, test.crash_kind),
                    "expected": bool(test.expected),
                    "flaky": test.flaky,
                    "models": frozenset(test.models),
                    "uses": test.uses,
                    "pcc": test.pcc,
                }
            )
    frame = pd.DataFrame(rows)
    # Of an op that two runs of a night have, the later one that attempted it counts.
    frame["tried"] = frame.bad | frame.right
    frame = frame.sort_values(["tried", "at"]).drop_duplicates(["night", "series", "op"], keep="last")
    complete = frame.groupby(["night", "series"]).agg(
        models_missing=("models_missing", "min"),
        arrived=("shard", "nunique"),
        shards=("shards", "max"),
        whole=("whole", "max"),
    )
    complete["complete"] = ~complete.models_missing & (complete.arrived >= complete.shards) & complete.whole
    return frame.merge(complete[["complete"]].reset_index(), on=["night", "series"])


def changes(tests: pd.DataFrame, night: str, series: str, acknowledged: Collection[str] = ()) -> pd.DataFrame:
    """The attempted ops of a night in one series, each with what happened to it in `what`."""
    of = tests[tests.series == series]
    now = of[of.night == night].set_index("op")
    earlier = of[of.started < now.started.iloc[0]].sort_values("started")
    nights = earlier.drop_duplicates("night")[["night", "complete"]]
    before = earlier[earlier.night == nights.night.iloc[-1]] if len(nights) else earlier
    before = before[before.tried].set_index("op")
    if len(nights) and not nights.complete.iloc[-1] and nights.complete.any():  # what it did not try is as it was
        last = earlier[earlier.night == nights[nights.complete].night.iloc[-1]]
        last = last[last.tried].set_index("op")
        before = pd.concat([before, last[~last.index.isin(before.index)]])
    models = frozenset().union(*before.models) if len(before) else frozenset()
    now = now[now.tried].join(before[["bad", "right", "reason", "flaky", "pcc"]].add_suffix("_before"))
    was_bad, was_right = now.bad_before.eq(True), now.right_before.eq(True)
    same = now.reason == now.reason_before
    known_model = now.models.map(lambda of_op: bool(of_op & models))
    now["what"] = "same"
    now.loc[now.bad & was_bad & same, "what"] = "still failing"
    now.loc[now.bad & was_bad & ~same, "what"] = "another reason"
    now.loc[now.bad & ~was_bad & (known_model | was_right), "what"] = "new"
    now.loc[now.bad & ~was_bad & ~known_model & ~was_right, "what"] = "first"
    now.loc[now.right & was_bad, "what"] = "fixed"
    pcc, pcc_before = (column.astype(float) for column in (now.pcc, now.pcc_before))
    fell = pcc_before - pcc
    tenfold = (fell >= 1e-5) & (1 - pcc >= 10 * (1 - pcc_before))
    now.loc[now.right & was_right & ((fell >= 1e-3) | tenfold), "what"] = "less exact"
    now["flaky"] |= now.flaky_before.eq(True)  # what disagreed in either night comes and goes
    now["acknowledged"] = now.cause.isin(acknowledged)
    now["quiet"] = now.expected | now.flaky | now.acknowledged
    now["first_night"] = not len(nights)
    return now


def told(of: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """What the sentence has to tell of these changes: kind -> ops, each once, and their causes."""
    of = of.reset_index()
    loud, ours, bad = ~of.quiet, ~of.expected, of.bad
    kinds = {
        "new failure": (of.what == "new") & loud,
        "failing for another reason": (of.what == "another reason") & loud,
        "less exact": (of.what == "less exact") & loud,
        "still failing": (of.what == "still failing") & loud,
        "failing": (of.what == "first") & of.first_night & loud,
        "acknowledged": bad & ours & of.acknowledged,
        "failing as expected": bad & of.expected,
        "flaky": bad & ours & of.flaky,
        "failing in a new model": (of.what == "first") & ~of.first_night & loud,
        "fixed": (of.what == "fixed") & ~of.flaky,
    }
    counted = {kind: of[which] for kind, which in kinds.items()}
    return {kind: (rows.op.nunique(), rows.cause.nunique()) for kind, rows in counted.items() if len(rows)}


Nights = list[tuple[Any, str, bool, frozenset[str]]]
"""The nights of a series, one after another: when it began, its date, whether it is complete, and the causes in it."""


def nights_of_series(tests: pd.DataFrame) -> dict[str, Nights]:
    """The nights of each series."""
    found: dict[str, Nights] = {}
    for (_, series), of in tests.sort_values("started").groupby(["night", "series"], sort=False):
        one = of.iloc[0]
        causes = frozenset(of[of.bad].cause)
        found.setdefault(str(series), []).append((one.started, str(one.date), bool(one.complete), causes))
    return found


def began(nights: Nights, until: Any, cause: str) -> tuple[str, str]:
    """Since when a cause fails in a series, of nights up to `until`: the date of the last complete night without it (or
    nothing), and that of the first with it after that."""
    without, first = "", ""
    for started, date, complete, causes in nights:
        if started > until:
            break
        if cause in causes:
            first = first or date
        elif complete:
            without, first = date, ""
    return without, first


def wrong_since(tests: pd.DataFrame, series: str, op: str) -> str:
    """The date of the first of the last nights that tried an op, all of which found it wrong."""
    tried = tests[(tests.series == series) & (tests.op == op) & tests.tried].sort_values("started", ascending=False)
    return tried[tried.bad.cumprod().astype(bool)].date.iloc[-1]
