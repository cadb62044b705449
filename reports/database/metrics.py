"""docs/metrics.md: every view of the database with what it counts and its columns, from the views' own comments.

    -- What the view holds, its denominator, what it leaves out.
    --   column: what it means
    SELECT ...

Columns that many views share are told once, in `SHARED`. The same texts describe datasets and charts of dashboards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opscope.reports.database.database import views
from opscope.reports.database.frame_types import OF_VIEW, type_of

SHARED = {
    "run_id": "the run",
    "night_id": "the night; of a run by itself the run",
    "label": "local date and time of the night's start",
    "label_of_night": "local date and time of the night's start",
    "night": "local date and time of the night's start",
    "kind": "`night`, or `run` for a run by itself",
    "name": "name of the night",
    "demo": "whether it is demo data",
    "started": "start, in UTC",
    "series": "what makes nights comparable: backend, board, types, formats, inputs, seed",
    "backend": "compiler, and what ran its output",
    "arch": "board that was compiled for",
    "card_type": "what it ran on; `sim-n150` is the simulated card",
    "dtype": "element type",
    "rank": "rank of the first operand",
    "data_format": "format the device computes floats in",
    "math_fidelity": "passes of the matrix unit",
    "optimization_level": "what the compiler was asked to do beyond single ops: 0, 1 or 2",
    "amp_level": "mixed precision that was asked for: 0, 1 or 2",
    "model": "the model",
    "model_name": "a model that the op stands in",
    "op_id": "the op, in every run and model the same",
    "op_name": "its name, `stablehlo.add`",
    "op_kind": "its family, `eltwise`",
    "op_names": "names of the ops",
    "signature": "its types in one line",
    "status": "how it ended",
    "stage_reached": "the last stage that was passed",
    "failed_stage": "the stage that it failed at",
    "stage": "the stage that it failed at",
    "error_signature": "fingerprint of the error, equal for equal causes",
    "error_message": "what the error said, in one line",
    "message": "what the error said, in one line",
    "crash_kind": "how it crashed",
    "cluster": "the failure's cause, equal for equal causes",
    "expected": "the limitation that names the failure",
    "known": "the limitation that names the failure",
    "is_failure": "whether it fails its run: no limitation names it",
    "flaky": "whether it ended otherwise when it was run again",
    "ran_on": "`simulator`, `silicon`, `host`, `mixed` or `none`; shares of two places never add up",
    "pcc": "smallest correlation with the golden over its results",
    "cycles": "device cycles of one execution",
    "device_ns": "the same in nanoseconds",
    "l1_peak_bytes": "L1 per core",
    "dram_peak_bytes": "DRAM",
    "seconds": "what all its stages took the harness",
    "uses": "places in the models",
    "models": "the models",
    "model_count": "how many models",
    "ops": "unique ops",
    "attempt": "which attempt this was",
    "provenance": "where its inputs came from",
    "artifact": "the full diagnostic, relative to the run's folder",
    "repro": "the line that runs just this op again",
    "owner": "the team that looks after it (ci/owners.yaml)",
    "compiler": "fingerprint of the backend",
    "jaxlib": "version of jaxlib",
    "revision": "revision of the compiler under test",
    "previous_night": "the night that it is compared with",
    "right_ops": "unique ops whose numbers are right",
    "passed_ops": "unique ops whose numbers are right",
    "attempted_ops": "unique ops that were attempted",
    "right_uses": "places of the right ops",
    "passed_uses": "places of the right ops",
    "attempted_uses": "places of the attempted ops",
    "bad_ops": "unique ops that went wrong",
    "bad_uses": "places of the ops that went wrong",
    "flaky_ops": "unique ops whose repeated attempts disagreed",
    "cycles_of_all_uses": "cycles times uses",
    **{f"{what}_changed": f"whether {of} another than in the night before" for what, of in
       (("compiler", "the compiler is"), ("jaxlib", "jaxlib is"), ("models", "the set of models is"))},
    **{f"{what}_{when}": f"{told} in {night}" for what, told in
       (("status", "how it ended"), ("pcc", "correlation with the golden"), ("cycles", "device cycles"),
        ("compile_ms", "milliseconds of compiling")) for when, night in
       (("before", "the night before"), ("now", "this night"))},
}  # fmt: skip
"""Column -> what it means wherever a view says nothing else."""

_COLUMN = re.compile(r"--   (\w+): (.*)")


@dataclass(frozen=True)
class Metric:
    """A view: what it holds, and the columns that its own comment explains."""

    name: str
    holds: str
    columns: dict[str, str]

    def meaning(self, column: str) -> str:
        """What a column means; KeyError where nobody says so (a test looks)."""
        return self.columns.get(column) or SHARED[column]


def metrics() -> dict[str, Metric]:
    """Every view by name."""
    return {name: parse(name, text) for name, text in views().items()}


def parse(name: str, text: str) -> Metric:
    """The comment at the head of a view."""
    holds: list[str] = []
    columns: dict[str, str] = {}
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        told = _COLUMN.match(line)
        if told:
            columns[told[1]] = told[2].strip()
        else:
            holds.append(line.removeprefix("--").strip())
    return Metric(name, " ".join(holds), columns)


HEAD = """# Metrics

What is counted, over what, and what is left out: the SQL views of the results database, which command line,
`report.html` and dashboards read. Written by `make metrics` from the comments of [the
views](../reports/database/views). A column that a view says nothing of means the same everywhere and stands in the last
table. Types are those of the DataFrames that `opscope.reports.exports.frames` makes of each view ([in
Python](results.md#in-python-reportsframes)).
"""
TABLE = "| column | type | meaning |\n|---|---|---|"


def markdown(columns_of: dict[str, list[str]]) -> str:
    """The page. `columns_of`: view -> its columns in order."""
    parts = [HEAD]
    shared: set[str] = set()
    for name, metric in metrics().items():
        own = [column for column in columns_of[name] if column in metric.columns]
        rest = [column for column in columns_of[name] if column not in metric.columns]
        shared |= set(rest)
        parts.append(f"## `{name}`\n\n{metric.holds}\n")
        if own:
            rows = "\n".join(f"| `{column}` | {type_of(name, column)} | {metric.columns[column]} |" for column in own)
            parts.append(f"{TABLE}\n{rows}\n")
        if rest:
            unlike = OF_VIEW.get(name, {})
            told = (f"`{column}`{f' ({unlike[column]})' if column in unlike else ''}" for column in rest)
            parts.append(f"Also {', '.join(told)}.\n")
    rows = "\n".join(f"| `{column}` | {type_of('', column)} | {SHARED[column]} |" for column in sorted(shared))
    parts.append(f"## Columns of many views\n\n{TABLE}\n{rows}\n")
    return "\n".join(parts)


def main() -> None:
    """Prints the page, with the columns of a fresh database."""
    import tempfile

    import sqlalchemy as sa

    from opscope.reports.database.database import open_database

    with tempfile.TemporaryDirectory() as folder, open_database(f"sqlite:///{folder}/db.sqlite") as connection:
        inspector = sa.inspect(connection)
        print(markdown({name: [c["name"] for c in inspector.get_columns(name)] for name in views()}), end="")


if __name__ == "__main__":
    main()
