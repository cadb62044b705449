"""The charts of report.html as Vega-Lite specifications, built with Altair from the rows of reports/pages/page_rows.py.

Colours of stages and statuses come from opscope/base/statuses.py; sizes and text colours come from the page
(assets/report.js).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opscope.base.statuses import NOT_RUN, OTHER_STAGE, STAGES, STATUSES, SUPPORT
from opscope.harness.record.stages import in_order

Row = dict[str, Any]

WORST_TO_BEST = [SUPPORT[word].colour for word in ("no", "known gap", "yes")]
"""Colours of a share, from 0 to 1."""
MOST = 20
"""Largest number of ops in a bar chart; the table has them all."""
MOST_POINTS = 1000
"""Largest number of ops in the chart of errors, which shows the least exact ones."""
LEAST = 1e-6
"""Where an exact result stands on a logarithmic axis."""


def charts(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Name of each place in the page -> its chart's specification; a chart without data is left out."""
    import altair as alt

    by_place = {
        "chart-ladder-ops": _ladder(alt, rows, "ops", "unique ops"),
        "chart-ladder-uses": _ladder(alt, rows, "uses", "uses in the models"),
        "chart-heat": _heat(alt, rows),
        "chart-time": _time(alt, rows),
        "chart-cycles": _cycles(alt, rows),
        "chart-z": _z(alt, rows),
    }
    # Altair would check each specification against a schema of 1 MB; a test does that once for all reports.
    return {name: chart.to_dict(validate=False) for name, chart in by_place.items() if chart is not None}


def stage_colours(stages: Iterable[str]) -> dict[str, str]:
    """Stage -> its colour, in the order given."""
    return {stage: STAGES[stage][1] if stage in STAGES else OTHER_STAGE for stage in stages}


def status_colours() -> dict[str, str]:
    """Status -> its colour."""
    return {status: word.colour for status, word in STATUSES.items()}


def _scale(alt: Any, colours: dict[str, str], used: set[str]) -> Any:
    shown = {str(name): colour for name, colour in colours.items() if str(name) in used}
    return alt.Scale(domain=list(shown), range=list(shown.values()))


def _data(alt: Any, rows: list[Row]) -> Any:
    return alt.Data(values=rows)


def _bar_height(rows: int) -> int:
    """The height in pixels of `rows` horizontal bars."""
    return max(60, 22 * rows)


def _ladder(alt: Any, rows: Sequence[Row], weight: str, title: str) -> Any:
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
    return (
        alt.Chart(_data(alt, data), height=_bar_height(len({kind for kind, _ in cells})), width="container")
        .mark_bar(cornerRadius=1)
        .encode(
            y=alt.Y("kind:N", title=None, sort="-x"),
            x=alt.X("count:Q", title=title, axis=alt.Axis(tickMinStep=1)),
            color=alt.Color("stage:N", title="furthest stage", scale=_scale(alt, colours, stages)),
            order=alt.Order("step:Q", sort="descending"),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("kind", "stage")] + [alt.Tooltip("count:Q", title=title)],
        )
    )


def _heat(alt: Any, rows: Sequence[Row]) -> Any:
    """Pass rate by model and op family: the share of attempted ops that are right, on the host or on a device."""
    cells: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        if row["tone"] != "idle":
            for model in row["models"]:
                cell = cells.setdefault((model, row["kind"]), [0, 0])
                cell[0] += row["tone"] == "good"
                cell[1] += 1
    if not cells:
        return None
    data = [
        {"model": model, "kind": kind, "right": right, "attempted": attempted, "share": right / attempted,
         "told": f"{right}/{attempted}"}
        for (model, kind), (right, attempted) in sorted(cells.items())
    ]  # fmt: skip
    height = _bar_height(len({model for model, _ in cells}))
    base = alt.Chart(_data(alt, data), width="container", height=height).encode(
        x=alt.X("kind:N", title=None, axis=alt.Axis(labelAngle=-40)),
        y=alt.Y("model:N", title=None),
        tooltip=["model:N", "kind:N", "right:Q", "attempted:Q", alt.Tooltip("share:Q", format=".1%")],
    )  # fmt: skip
    colour = alt.Color("share:Q", title="right, of attempted", legend=alt.Legend(format=".0%"),
                       scale=alt.Scale(domain=[0, 0.5, 1], range=WORST_TO_BEST))  # fmt: skip
    text = base.mark_text(fontSize=10).encode(text="told:N", color=alt.value("#1b1f24"))
    return alt.layer(base.mark_rect(cornerRadius=2).encode(color=colour), text)


def _label(row: Row) -> str:
    """Labels an op with its name, without the dialect, and the start of its id: short and unique."""
    return f"{row['name'].partition('.')[2] or row['name']} {row['id'][:6]}"


def _op_fields(row: Row) -> Row:
    return {"op": _label(row), "id": row["id"], "types": row["types"], "uses": row["uses"]}


def _time(alt: Any, rows: Sequence[Row]) -> Any:
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
    return (
        alt.Chart(_data(alt, data), height=_bar_height(len(slow)), width="container")
        .mark_bar(cornerRadius=1)
        .encode(
            y=alt.Y("op:N", title=None, sort=[_label(row) for row in slow]),
            x=alt.X("ms:Q", title="milliseconds"),
            color=alt.Color("stage:N", title=None, scale=_scale(alt, stage_colours(shown), set(shown))),
            order=alt.Order("step:Q"),
            tooltip=["op:N", "types:N", "stage:N", alt.Tooltip("ms:Q", format=".3~f"),
                     alt.Tooltip("all:Q", title="all stages, ms", format=".3~f")],
        )
    )  # fmt: skip


def _cycles(alt: Any, rows: Sequence[Row]) -> Any:
    heavy = sorted((row for row in rows if row["cycles"]), key=lambda row: -row["cycles"])[:MOST]
    if not heavy:
        return None
    data = [{**_op_fields(row), "cycles": row["cycles"], "all": row["cycles"] * row["uses"], "kind": row["kind"],
             "us": row["device_us"]} for row in heavy]  # fmt: skip
    return (
        alt.Chart(_data(alt, data), height=_bar_height(len(heavy)), width="container")
        .mark_bar(cornerRadius=1)
        .encode(
            y=alt.Y("op:N", title=None, sort=[_label(row) for row in heavy]),
            x=alt.X("cycles:Q", title="device cycles of one execution", axis=alt.Axis(format="~s")),
            color=alt.Color("kind:N", title=None, scale=alt.Scale(scheme="tableau10")),
            tooltip=["op:N", "types:N", alt.Tooltip("cycles:Q", format=","), alt.Tooltip("us:Q", title="µs"),
                     "uses:Q", alt.Tooltip("all:Q", title="cycles of all uses", format=",")],
        )
    )  # fmt: skip


TITLES = {"z": "largest z over its limit (above 1 is wrong)", "alone": "largest z", "l2": "relative L2 error"}
"""What the chart of errors shows: the first that any op has."""


def _z(alt: Any, rows: Sequence[Row]) -> Any:
    """How large the largest error of each op is over what it may be; of old records, which have no z, relative L2."""
    measured = [(row, *figure) for row in rows if (figure := _figure(row)) is not None]
    if not measured:
        return None
    what = next(kind for kind in TITLES if any(kind == other for _, other, _ in measured))
    # A logarithmic axis cannot show an exact result: it stands at its left edge.
    data = [{**_op_fields(row), "kind": row["kind"], "status": row["status"], "z": row["z"], "share": max(value, LEAST)}
            for row, kind, value in measured if kind == what]  # fmt: skip
    data = sorted(data, key=lambda row: -row["share"])[:MOST_POINTS]
    title = TITLES[what]
    points = (
        alt.Chart(_data(alt, data), height=_bar_height(len({row["kind"] for row in data})), width="container")
        .mark_circle(size=70, opacity=0.75)
        .encode(
            y=alt.Y("kind:N", title=None),
            yOffset=alt.YOffset("id:N"),
            x=alt.X("share:Q", title=title, scale=alt.Scale(type="log"), axis=alt.Axis(format="~g", tickCount=8)),
            color=alt.Color("status:N", title=None, scale=_scale(alt, status_colours(), {r["status"] for r in data})),
            tooltip=["op:N", "types:N", alt.Tooltip("z:Q", format=".4~g"),
                     alt.Tooltip("share:Q", title=title, format=".4~g"), "status:N"],
        )
    )  # fmt: skip
    if what != "z":
        return points
    limit = alt.Chart(_data(alt, [{"share": 1}])).mark_rule(strokeDash=[4, 4], color=STATUSES["golden_failed"].colour)
    return alt.layer(limit.encode(x="share:Q"), points)


def _figure(row: Row) -> tuple[str, float] | None:
    """Which figure an op has for how wrong its numbers are, a key of TITLES, and its worst."""
    shares = [result["z"] / result["z_limit"] for result in row["results"] if result["z"] is not None]
    if shares:
        return "z", max(shares)
    if row["z"] is not None:  # a record of the database, which keeps no limit
        return "alone", row["z"]
    errors = [result["l2"] for result in row["results"] if result["l2"] is not None]
    return ("l2", max(errors)) if errors else None
