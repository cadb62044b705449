"""An explanation in lines of characters: compare.txt, and in colours on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.harness.record.explanation import Explanation, HeatMap, Histogram, ResultExplanation, WorstElement

Piece = tuple[str, str]
"""A text and its style in rich's words; empty: none."""
Line = list[Piece]

RAMP = ".:+#@"
"""Nothing wrong, then by fourths of the largest cell."""
STYLES = ("dim", "yellow", "dark_orange", "red", "bold red")
BAR = 24
"""Columns of the longest bar of a histogram."""
SHOWN = 8
"""Worst elements that are listed; compare.json has all that were kept."""


def text(explanation: Explanation) -> str:
    """The whole explanation, one line below the other."""
    return "".join(f"{''.join(piece for piece, _ in line)}\n" for line in lines(explanation))


def lines(explanation: Explanation) -> Iterator[Line]:
    """The lines of an explanation with their styles."""
    for result in explanation.results:
        yield from _result(result)
    if explanation.note:
        yield [(explanation.note, "dim")]


def _result(result: ResultExplanation) -> Iterator[Line]:
    yield [(f"result {result.number}: {result.reason}", "")]
    if result.hypothesis:
        yield [("hypothesis: ", "bold"), (result.hypothesis, "bold cyan")]
    if result.wrong is not None and result.count:
        limit = "unequal" if result.z_limit is None else f"beyond {result.z_limit:.3g} of their scale"
        yield [(f"{result.wrong:,} of {result.count:,} elements {limit} ({percent(result.wrong, result.count)})", "")]
    if result.worst:
        yield [("worst elements", "bold")]
        for worst in result.worst[:SHOWN]:
            yield from _worst(worst)
    if result.heat is not None:
        yield from heat_lines(result.heat)
    if result.histogram is not None:
        yield from _histogram(result.histogram, result.z_limit)
    if result.file:
        yield [(f"the device's result: {result.file}", "dim")]
    if result.note:
        yield [(result.note, "dim")]


def percent(part: int, whole: int) -> str:
    """A share in percent that is 0 or 100 only if it is."""
    share = 100 * part / whole
    if part and share < 0.01:
        return f"{share:.1g} %"
    return f"{min(share, 99.99):.2f} %" if part < whole and share > 99.9 else f"{share:.3g} %"


def index_text(index: tuple[int, ...]) -> str:
    """`[3, 17]`."""
    return f"[{', '.join(map(str, index))}]"


def _worst(worst: WorstElement) -> Iterator[Line]:
    z = "" if worst.z is None else f", z {worst.z:.3g}"
    yield [
        (f"  {index_text(worst.index)}: expected {worst.expected}, got ", ""),
        (worst.got, "red"),
        (f"{z}; {worst.place}" if worst.place else z, "dim"),
    ]
    for term in worst.terms:
        yield [(f"    {term.text}", "dim")]
    if worst.terms_note:
        yield [(f"    {worst.terms_note}", "dim")]


def heat_lines(heat: HeatMap) -> Iterator[Line]:
    """The heat map: a character for each cell."""
    most = max((value for row in heat.cells for value in row), default=0.0)
    largest = f"{most:.1%}" if heat.what.startswith("share") else f"{most:.3g}"
    yield [("where: ", "bold"), (f"each character is one {heat.cell}; {heat.what}, {RAMP[-1]} up to {largest}", "")]
    for number, row in enumerate(heat.cells):
        if number and number % heat.batch_rows == 0:
            yield [("", "")]
        yield [("  ", ""), *_runs(row, most)]


def _runs(row: tuple[float, ...], most: float) -> Iterator[Piece]:
    """The cells of one row, neighbours of one shade in one piece."""
    levels = [level(value, most) for value in row]
    start = 0
    for end in range(1, len(levels) + 1):
        if end == len(levels) or levels[end] != levels[start]:
            yield RAMP[levels[start]] * (end - start), STYLES[levels[start]]
            start = end


def level(value: float, most: float) -> int:
    """0 for nothing, else 1 to 4 by fourths of `most`, the largest value."""
    return 1 + int(4 * value / most * 0.999999) if value > 0 else 0


def buckets(histogram: Histogram) -> Iterator[tuple[str, int, int]]:
    """The bounds of |z| of each bucket that is not empty, or lies between such, and how many lie below and above."""
    used = [n for n, both in enumerate(zip(histogram.low, histogram.high, strict=True)) if any(both)]
    if not used:
        return
    for number in range(min(used), max(used) + 1):
        low = histogram.edges[number]
        bounds = f"{low:g} to {histogram.edges[number + 1]:g}" if number + 1 < len(histogram.edges) else f"over {low:g}"
        yield bounds, histogram.low[number], histogram.high[number]


def _histogram(histogram: Histogram, limit: float | None) -> Iterator[Line]:
    rows = list(buckets(histogram))
    most = max((max(low, high) for _, low, high in rows), default=0)
    if not most:
        return
    at_most = "" if limit is None else f", at most {limit:.3g}"
    yield [("errors over their scale ", "bold"), (f"(|z|{at_most}): elements too small | too large", "")]
    width = max(len(f"{count:,}") for row in rows for count in row[1:])
    for bounds, low, high in rows:
        left, right = (("#" * -(-BAR * count // most)) for count in (low, high))
        yield [(f"  {left:>{BAR}} {low:>{width},}  {bounds:^16}  {high:>{width},} {right}".rstrip(), "")]
