"""What every view of the database and its columns mean, by the views' comments.

    -- What the view holds, its denominator, what it leaves out.
    --   column: what it means
    SELECT ...

Columns that many views share are explained once, in `SHARED`. These texts describe datasets and charts of dashboards,
the tables of assistants, and docs/metrics.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opscope.harness.record.measures import MEASURES
from opscope.harness.record.result_options import OPTIONS
from opscope.reports.database.database import views

SHARED = {
    "run_id": "the run; of an op of a night, the one whose verdict counts",
    "night_id": "the night; the run itself for a run that belongs to no night",
    "night": "local date and time of the night's start, and its time zone",
    "date": "the night's date in its time zone, as a midnight",
    "day": "the same date as text, `2026-11-20`",
    "newest": "1 in the newest night of its series",
    "tonight": "1 if it speaks tonight (`night_dates`)",
    "of_date": "1 in the last night of its series of that date, which speaks for the date",
    "kind": "`night`, or `run` for a run that belongs to no night, or `release` for a night of `opscope history`",
    "name": "name of the night",
    "demo": "whether it is demo data",
    "started": "start, in UTC",
    "series": "nights that can be compared: same backend, board, types, formats, inputs and seed",
    "backend": "the compiler and what ran its output",
    "platform": "backend and board, and the number format if one was asked for",
    "card_type": "what ran the ops; `sim-n150` is the simulated card",
    "dtype": "element type of the op's first operand; of its first result if it has none, as `iota`",
    "rank": "number of dimensions of the op's first operand; of its first result if it has none",
    **{name: option.column for name, option in OPTIONS.items() if option.column},
    "arch": "the board that ops were compiled for; in views of dashboards empty for a backend that has none",
    "board": "the board; empty for a backend that has none",
    "data_format": "format in which the device computes floats; `default` for what was asked for without --data-format",
    "framework": "what the model was built with; empty for a StableHLO file",
    "model": "the model; `all models`, or empty, in a row of all of them together",
    "model_name": "a model that uses the op",
    "op_id": "the op's id, the same in every run and model",
    "op_name": "the op's name, `stablehlo.add`",
    "op_kind": "the op's family, `eltwise`",
    "op_names": "names of the ops",
    "signature": "the op's types in one line",
    "status": "how the op ended",
    "stage_reached": "the last stage that the op passed",
    "failed_stage": "the stage at which the op failed; for FIXED, where it failed before",
    "error_signature": "fingerprint of the error, equal for equal causes",
    "error_message": "the error in one line; for FIXED, the error that it had",
    "crash_kind": "how the op crashed",
    "cluster": "the failure's cause, equal for equal causes ([glossary](glossary.md))",
    "cause": "the failure's cause, equal for equal causes ([glossary](glossary.md)); in dashboards its short id",
    "expected": "the limitation that names the failure; empty where none does",
    "is_expected": "whether a limitation names the failure",
    "is_failure": "whether the op fails its run: it went wrong and no limitation names the failure",
    "flaky": "whether repeated attempts disagreed; in dashboards `flaky`, or empty",
    "ran_on": "`simulator`, `silicon`, `host`, `mixed` or `none`; shares of two places never add up",
    "pcc": "smallest correlation with the golden over the op's results",
    "z_max": "largest error over its own scale ([verdicts.md](verdicts.md))",
    "z_place": "where that element is: index, tile, face, row of the face",
    "hypothesis": "what made the numbers wrong, if something fits ([triage.md](triage.md))",
    "question": "the question that the numbers failed: `largest`, `systematic`, `placed` or `rounding`",
    **{name: measure.meaning for name, measure in MEASURES.items()},
    "seconds": "time that all stages took the harness",
    "uses": "how often the op occurs in the models; in a row of one model, in that one",
    "models": "the models",
    "model_count": "number of models",
    "ops": "unique ops",
    "attempt": "number of the attempt",
    "provenance": "where the op's inputs came from",
    "artifact": "the full diagnostic, relative to the run's folder",
    "repro": "the command that runs just this op again",
    "owner": "the team that owns the failure, by the first rule of ci/owners.yaml that matches",
    "remark": "the note of its cause: who, when, until when it is acknowledged, and what (`opscope note`)",
    "acknowledged": "1 if a note acknowledges the cause on the night's date, so that it does not alarm",
    "compiler": "fingerprint of the backend",
    "jaxlib": "version of jaxlib",
    "revision": "revision of the compiler under test",
    "previous_night": "the night that it is compared with: the one before it in the series with a model in common",
    "pass_rate": "right_ops / attempted_ops",
    "right_ops": "unique ops that are right: in their numbers, or by a compiler alone that took them",
    "attempted_ops": "unique ops that were attempted",
    "right_uses": "uses of the right ops",
    "attempted_uses": "uses of the attempted ops",
    "bad_ops": "unique ops that went wrong, expected failures included",
    "bad_uses": "uses of the ops that went wrong",
    "expected_ops": "unique ops that went wrong as a limitation says",
    "flaky_ops": "unique ops whose repeated attempts disagreed",
    "cycles_of_all_uses": "device cycles of all uses, one after another; null where none ran on a device",
    "alone": "models that nothing else holds back",
    "all_models": "models that ran",
    "asked": "models that were asked for or expected: the sum of the seven columns that follow",
    "ran": "models that became a module and ran",
    "build_failed": "models whose code failed",
    "export_failed": "models of which no module could be made",
    "prepare_failed": "models whose module could not be split or evaluated",
    "framework_missing": "models whose framework is not installed",
    "not_run": "models that the time of --budget did not reach",
    "models_missing": "models that were expected and that no run has",
    "missing": "what was expected and is not there, in words",
    "attempted": "0 if it was deselected or not reached, or has no verdict",
    "bad": "1 if it went wrong, expected failures included",
    "label": "that of `opscope diff` ([glossary](glossary.md)); FIRST in a night or a model without a previous one",
    "change": "the label; `acknowledged`, or `known or flaky`, for one that would fail a gate or count as fixed else",
    "compile_ms": "milliseconds of the stages before `run`",
    "furthest_stage": "the last stage that was passed, numbered in the order of the stages",
    "fixes": "fixes made so far; 0 is the night as it is",
    "unlocked": "models that this fix makes whole",
    "whole": "1 if every op of the model is right, and so it is as one program, if it ran as one",
    "model_on": "the model, and the platform if there is more than one tonight",
    "news": "1 if the row fails a gate: NEW, REASON-CHANGED or PCC-DROP, neither expected nor flaky nor acknowledged",
    "night_status": "`complete`, `partial` (lacks a model, a shard or an end) or `broken` (all ops fail alike)",
    "note": "why it has that label",
    "op": "name and id",
    "outcome": "`ran`, `build_failed`, `export_failed`, `prepare_failed`, `framework_missing`, `not_run` or `missing`",
    "reason": "why it did not run",
    "pass_rate_of_uses": "right_uses / attempted_uses",
    "place": "`device` if ops of the night ran on a device or its simulator, else `host`",
    "position": "1 holds back the most models, then the most uses",
    "changed": "what else changed since the previous night: compiler, jaxlib or models",
    **{
        f"{what}_changed": f"whether {of} changed since the previous night"
        for what, of in (("compiler", "the compiler"), ("jaxlib", "jaxlib"), ("models", "the set of models"))
    },
    **{
        f"{what}_{when}": f"{meaning} in {night}"
        for what, meaning in (
            ("status", "how the op ended"),
            ("pcc", "correlation with the golden"),
            ("cycles", "device cycles"),
            ("compile_ms", "milliseconds of compiling"),
        )
        for when, night in (("before", "the previous night"), ("now", "this night"))
    },
}
"""Column -> its meaning in every view whose comment does not explain it."""

_COLUMN = re.compile(r"--   (\w+): (.*)")


@dataclass(frozen=True)
class Metric:
    """A view: what its rows are, and the columns that its comment explains."""

    name: str
    holds: str
    columns: dict[str, str]

    def meaning(self, column: str) -> str:
        """The meaning of a column. Raises KeyError if it is not explained anywhere, which a test prevents."""
        return self.columns.get(column) or SHARED[column]


def metrics() -> dict[str, Metric]:
    """Every view by name."""
    return {name: parse(name, text) for name, text in views().items()}


def parse(name: str, text: str) -> Metric:
    """Parses the comment at the top of a view's file."""
    holds: list[str] = []
    columns: dict[str, str] = {}
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        explained = _COLUMN.match(line)
        if explained:
            columns[explained[1]] = explained[2].strip()
        else:
            holds.append(line.removeprefix("--").strip())
    return Metric(name, " ".join(holds), columns)
