"""The charts of report.html as Vega-Lite specifications, from the rows of reports/pages/page_rows.py.

Colours of stages and statuses come from opscope/base/statuses.py; sizes and text colours come from the page
(assets/report.js).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opscope.base.statuses import NOT_RUN, OTHER_STAGE, STAGES, STATUSES, SUPPORT
from opscope.harness.record.stages import in_order
from opscope.reports.pages.vega_lite import Spec, channel, chart, layer, tooltip

Row = dict[str, Any]

WORST_TO_BEST = [SUPPORT[word].colour for word in ("no", "known gap", "yes")]
"""Colours of a share, from 0 to 1."""
MOST = 20
"""Largest number of ops in a bar chart; the table has them all."""
MOST_POINTS = 1000
"""Largest number of ops in the chart of errors, which shows the least exact ones."""
LEAST = 1e-6
"""Where an exact result stands on a logarithmic axis."""


def charts(rows: Sequence[Row]) -> dict[str, Spec]:
    """Name of each place in the page -> its chart's specification. A chart without data is left out, and where fewer
    than two ops ran all are: a chart compares."""
    if sum(row["furthest"] != NOT_RUN for row in rows) < 2:
        return {}
    ladders: dict[str, Spec | None] = {}
    for number, backend in enumerate(dict.fromkeys(row["backend"] for row in rows)):
        of_backend = [row for row in rows if row["backend"] == backend]
        ladders[f"chart-ladder-ops-{number}"] = _ladder(of_backend, "ops", "unique ops")
        ladders[f"chart-ladder-uses-{number}"] = _ladder(of_backend, "uses", "uses in the models")
    by_place = ladders | {
        "chart-heat": _heat(rows),
        "chart-time": _time(rows),
        "chart-cycles": _cycles(rows),
        "chart-z": _z(rows),
    }
    return {name: specification for name, specification in by_place.items() if specification is not None}


def stage_colours(stages: Iterable[str]) -> dict[str, str]:
    """Stage -> its colour, in the order given."""
    return {stage: STAGES[stage][1] if stage in STAGES else OTHER_STAGE for stage in stages}


def status_colours() -> dict[str, str]:
    """Status -> its colour."""
    return {status: word.colour for status, word in STATUSES.items()}


def _scale(colours: dict[str, str], used: set[str]) -> Spec:
    shown = {str(name): colour for name, colour in colours.items() if str(name) in used}
    return {"domain": list(shown), "range": list(shown.values())}


def _bar_height(rows: int) -> int:
    """The height in pixels of `rows` horizontal bars."""
    return max(60, 22 * rows)


def _ladder(rows: Sequence[Row], weight: str, title: str) -> Spec:
    cells: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["kind"], row["furthest"])
        cells[key] = cells.get(key, 0) + (row["uses"] if weight == "uses" else 1)
    stages = {stage for _, stage in cells}
    climbs = [[stage for stage, _ in row["stages"]] for row in rows]
    order = [NOT_RUN, *in_order(stages - {NOT_RUN}, climbs)]
    colours = stage_colours(order)
    data = [
        {"kind": kind, "stage": stage, "count": count, "step": order.index(stage)}
        for (kind, stage), count in cells.items()
    ]
    bars = {
        "y": channel("kind:N", title=None, sort="-x"),
        "x": channel("count:Q", title=title, axis={"tickMinStep": 1}),
        "color": channel("stage:N", title="furthest stage", scale=_scale(colours, stages)),
        "order": channel("step:Q", sort="descending"),
        "tooltip": tooltip("kind:N", "stage:N", channel("count:Q", title=title)),
    }
    return chart(_bar_height(len({kind for kind, _ in cells})), layer("bar", bars, data, cornerRadius=1))


def _heat(rows: Sequence[Row]) -> Spec | None:
    """Coverage by model and op family: the share of all ops that are right, on the host or on a device.

    Of several backends each has rows of its own: what one can is no share of what another can.
    """
    several = len({row["backend"] for row in rows}) > 1
    cells: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        for name in row["models"]:
            model = f"{name} on {row['backend']}" if several else name
            cell = cells.setdefault((model, row["kind"]), [0, 0, 0])
            cell[0] += row["tone"] == "good"
            cell[1] += row["tone"] != "idle"
            cell[2] += 1
    if not cells:
        return None
    data = [
        {
            "model": model,
            "kind": kind,
            "right": right,
            "attempted": attempted,
            "ops": ops,
            "share": right / ops,
            "ratio": f"{right}/{ops}",
        }
        for (model, kind), (right, attempted, ops) in sorted(cells.items())
    ]
    height = _bar_height(len({model for model, _ in cells}))
    both = {
        "x": channel("kind:N", title=None, axis={"labelAngle": -40}),
        "y": channel("model:N", title=None),
        "tooltip": tooltip("model:N", "kind:N", "right:Q", "attempted:Q", "ops:Q", channel("share:Q", format=".1%")),
    }
    colour = channel(
        "share:Q",
        title="right, of all ops",
        legend={"format": ".0%"},
        scale={"domain": [0, 0.5, 1], "range": WORST_TO_BEST},
    )
    cell = layer("rect", {**both, "color": colour}, cornerRadius=2)
    text = layer("text", {**both, "text": channel("ratio:N"), "color": {"value": "#1b1f24"}}, fontSize=10)
    return chart(height, cell, text, rows=data)


def _label(row: Row) -> str:
    """Labels an op with its name, without the dialect, and the start of its id: short and unique."""
    return f"{row['name'].partition('.')[2] or row['name']} {row['id'][:6]}"


def _op_fields(row: Row) -> Row:
    return {"op": _label(row), "id": row["id"], "types": row["types"], "uses": row["uses"]}


def _time(rows: Sequence[Row]) -> Spec | None:
    slow = sorted((row for row in rows if row["seconds"]), key=lambda row: -row["seconds"])[:MOST]
    data = [
        {**_op_fields(row), "stage": stage, "ms": 1000 * seconds, "all": 1000 * row["seconds"], "step": step}
        for row in slow
        for step, (stage, seconds) in enumerate(row["stages"])
    ]
    if not data:
        return None
    climbs = [[stage for stage, _ in row["stages"]] for row in slow]
    shown = in_order({row["stage"] for row in data}, climbs)
    bars = {
        "y": channel("op:N", title=None, sort=[_label(row) for row in slow]),
        "x": channel("ms:Q", title="milliseconds"),
        "color": channel("stage:N", title=None, scale=_scale(stage_colours(shown), set(shown))),
        "order": channel("step:Q"),
        "tooltip": tooltip(
            "op:N",
            "types:N",
            "stage:N",
            channel("ms:Q", format=".3~f"),
            channel("all:Q", title="all stages, ms", format=".3~f"),
        ),
    }
    return chart(_bar_height(len(slow)), layer("bar", bars, data, cornerRadius=1))


def _cycles(rows: Sequence[Row]) -> Spec | None:
    heavy = sorted((row for row in rows if row["cycles"]), key=lambda row: -row["cycles"])[:MOST]
    if not heavy:
        return None
    data = [
        {
            **_op_fields(row),
            "cycles": row["cycles"],
            "all": row["cycles"] * row["uses"],
            "kind": row["kind"],
            "us": row["device_us"],
            "error": row["cycles_error"],
        }
        for row in heavy
    ]
    bars = {
        "y": channel("op:N", title=None, sort=[_label(row) for row in heavy]),
        "x": channel("cycles:Q", title="device cycles of one execution", axis={"format": "~s"}),
        "color": channel("kind:N", title=None, scale={"scheme": "tableau10"}),
        "tooltip": tooltip(
            "op:N",
            "types:N",
            channel("cycles:Q", format=","),
            *([channel("error:Q", title="+- %")] if any(row["error"] for row in data) else []),
            channel("us:Q", title="µs"),
            "uses:Q",
            channel("all:Q", title="cycles of all uses", format=","),
        ),
    }
    return chart(_bar_height(len(heavy)), layer("bar", bars, data, cornerRadius=1))


TITLES = {"z": "largest z over its limit (above 1 is wrong)", "alone": "largest z", "l2": "relative L2 error"}
"""What the chart of errors shows: the first that any op has."""


def _z(rows: Sequence[Row]) -> Spec | None:
    """How large the largest error of each op is over what it may be; of old records, which have no z, relative L2."""
    measured = [(row, *figure) for row in rows if (figure := _figure(row)) is not None]
    if not measured:
        return None
    what = next(kind for kind in TITLES if any(kind == other for _, other, _ in measured))
    # A logarithmic axis cannot show an exact result: it stands at its left edge.
    data = [
        {**_op_fields(row), "kind": row["kind"], "status": row["status"], "z": row["z"], "share": max(value, LEAST)}
        for row, kind, value in measured
        if kind == what
    ]
    data = sorted(data, key=lambda row: -row["share"])[:MOST_POINTS]
    title = TITLES[what]
    points = {
        "y": channel("kind:N", title=None),
        "yOffset": channel("id:N"),
        "x": channel("share:Q", title=title, scale={"type": "log"}, axis={"format": "~g", "tickCount": 8}),
        "color": channel("status:N", title=None, scale=_scale(status_colours(), {row["status"] for row in data})),
        "tooltip": tooltip(
            "op:N", "types:N", channel("z:Q", format=".4~g"), channel("share:Q", title=title, format=".4~g"), "status:N"
        ),
    }
    layers = [layer("circle", points, data, size=70, opacity=0.75)]
    if what == "z":
        colour = STATUSES["wrong_result"].colour
        layers.insert(0, layer("rule", {"x": channel("share:Q")}, [{"share": 1}], strokeDash=[4, 4], color=colour))
    return chart(_bar_height(len({row["kind"] for row in data})), *layers)


def _figure(row: Row) -> tuple[str, float] | None:
    """Which figure an op has for how wrong its numbers are, a key of TITLES, and its worst."""
    shares = [result["z"] / result["z_limit"] for result in row["results"] if result["z"] is not None]
    if shares:
        return "z", max(shares)
    if row["z"] is not None:  # a record of the database, which keeps no limit
        return "alone", row["z"]
    errors = [result["l2"] for result in row["results"] if result["l2"] is not None]
    return ("l2", max(errors)) if errors else None
