"""The heat map and the histogram of a wrong result as SVG, without scripts: for report.html and repro folders.

Colours that a page may set are variables with a default (`--text`, `--soft`), so that a picture fits dark and light.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from opscope.harness.record.explanation import Explanation, HeatMap, Histogram, ResultExplanation
from opscope.harness.record.explanation_text import buckets

WIDTH = 640
"""Pixels of a picture; it scales with its place."""
CELLS = 560
"""Pixels that the cells of a heat map may take in width."""
LARGEST_CELL, SMALLEST_CELL = 22, 6
RIGHT, COLD, HOT = "#8884", (255, 214, 102), (207, 19, 34)
"""A cell without an error, and the colours of a small and of the largest one."""
LOW, HIGH = "#4269d0", "#cf1322"
"""Bars of values that are too small and too large."""
TEXT, SOFT = "var(--text, #1b1f24)", "var(--soft, #57606a)"
LINE = 20
FONT = "12px system-ui, sans-serif"


def picture(explanation: Explanation) -> str:
    """All results of an explanation in one SVG file."""
    parts, height = [], 0
    for result in explanation.results:
        body, used = _result(result)
        if used:
            parts.append(f'<g transform="translate(0 {height})">{body}</g>')
            height += used + LINE
    return _svg("".join(parts), max(height, LINE)) + "\n"


def result_picture(result: ResultExplanation) -> str:
    """One result's heat map and histogram as an SVG element; empty if it has neither."""
    body, height = _result(result)
    return _svg(body, height) if height else ""


def _svg(body: str, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" style="max-width:100%;height:auto;font:{FONT}">{body}</svg>'
    )


def _result(result: ResultExplanation) -> tuple[str, int]:
    parts, height = [], 0
    drawings = [_heat(result.heat)] if result.heat is not None else []
    drawings += [_histogram(result.histogram, result.z_limit)] if result.histogram is not None else []
    for body, used in drawings:
        if used:
            parts.append(f'<g transform="translate(0 {height})">{body}</g>')
            height += used + LINE // 2
    return "".join(parts), height


def _text(x: float, y: float, words: str, fill: str = TEXT, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'


def _heat(heat: HeatMap) -> tuple[str, int]:
    columns = max((len(row) for row in heat.cells), default=1)
    size = max(SMALLEST_CELL, min(LARGEST_CELL, CELLS // columns))
    gap = 4
    most = max((value for row in heat.cells for value in row), default=0.0)
    share = heat.what.startswith("share")
    largest = f"{most:.1%}" if share else f"{most:.3g}"
    parts = [_text(0, 14, f"{heat.what}, per {heat.cell}; darkest: {largest}", SOFT)]
    y = LINE + 2.0
    for number, row in enumerate(heat.cells):
        if number and number % heat.batch_rows == 0:
            y += gap
        for column, value in enumerate(row):
            shown = f"{value:.2%}" if share else f"{value:.3g}"
            side, fill = size - 1, _colour(value, most)
            parts.append(
                f'<rect x="{column * size}" y="{y:g}" width="{side}" height="{side}" fill="{fill}">'
                f"<title>row {number}, column {column}: {shown}</title></rect>"
            )
        y += size
    return "".join(parts), int(y) + 2


def _colour(value: float, most: float) -> str:
    if not value > 0:
        return RIGHT
    share = value / most
    return "#" + "".join(f"{round(cold + (hot - cold) * share):02x}" for cold, hot in zip(COLD, HOT, strict=True))


def _histogram(histogram: Histogram, limit: float | None) -> tuple[str, int]:
    rows = list(buckets(histogram))
    most = max((max(low, high) for _, low, high in rows), default=0)
    if not most:
        return "", 0
    at_most = "" if limit is None else f" (at most {limit:.3g} is right)"
    parts = [_text(0, 14, f"elements by |z|, error over scale{at_most}", SOFT)]
    middle, bar, step = WIDTH / 2, 180.0, 16
    parts += [_text(middle - 60, 32, "too small", LOW, "end"), _text(middle + 60, 32, "too large", HIGH)]
    y = 40.0
    for bounds, low, high in rows:
        parts += _bars(y, middle, bar, step, (low, high), most)
        parts.append(_text(middle, y + 11, bounds, SOFT, "middle"))
        y += step
    return "".join(parts), int(y) + 4


def _bars(y: float, middle: float, bar: float, step: int, counts: Sequence[int], most: int) -> Iterator[str]:
    """Both bars of a bucket, with their counts at their ends; one element can be seen beside a million."""
    for count, left, colour in zip(counts, (True, False), (LOW, HIGH), strict=True):
        if not count:
            continue
        length = max(1.5, bar * count / most)
        start = middle - 60 if left else middle + 60
        x, end = (start - length, start - length - 4) if left else (start, start + length + 4)
        parts = f'<rect x="{x:.1f}" y="{y:g}" width="{length:.1f}" height="{step - 3}" fill="{colour}" opacity=".8"/>'
        yield parts + _text(end, y + 11, f"{count:,}", SOFT, "end" if left else "start")
