"""The error of a result over its inputs as SVG: the largest in ULP in each part of the axis, the limit beside it."""

from __future__ import annotations

from html import escape

import numpy as np

from opscope.harness.prepare.operand_sizes import is_float

WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 760, 300, 56, 40, 28
PARTS = 350
"""Parts of the axis."""
TEXT, SOFT, LINE = "var(--text, #1b1f24)", "var(--soft, #57606a)", "#4269d0"


def picture(ulp: np.ndarray, x: np.ndarray | None, title: str) -> str:
    """An SVG file of the error of each element in ULP. The axis is `x`, the first operand of an elementwise op, in the
    order of its type's numbers, so that each binade is as wide as another; the place in the result if it is None."""
    if not ulp.size:
        return _svg(f'<text x="{LEFT}" y="60" fill="{SOFT}">no elements to show</text>', title)
    ulp = np.ravel(ulp)
    along, marks = _axis(x, ulp.size)
    part = np.clip((along * PARTS).astype(int), 0, PARTS - 1)
    largest = np.full(PARTS, -1.0)
    np.maximum.at(largest, part, np.nan_to_num(ulp, posinf=1e38))
    top = max(1.0, float(np.ceil(np.log10(max(1.0, largest.max())) + 0.3)))
    high = [_height(each, top) for each in largest]
    bars = "".join(
        f'<rect x="{_x(number / PARTS):.1f}" y="{y:.1f}" width="{(WIDTH - LEFT) / PARTS:.2f}" '
        f'height="{HEIGHT - BELOW - y:.1f}" fill="{LINE}"/>'
        for number, (each, y) in enumerate(zip(largest, high, strict=True))
        if each > 0
    )
    lines = []
    for power in range(-1, int(top) + 1):
        y, text = _height(10.0**power, top), f"{10.0**power:g}"
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{SOFT}" stroke-opacity=".25"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{SOFT}">{text}</text>')
    for at, text in marks:
        anchor = "start" if at < 0.05 else "end" if at > 0.95 else "middle"
        place = f'x="{_x(at):.1f}" y="{HEIGHT - BELOW + 16}" text-anchor="{anchor}"'
        lines.append(f'<text {place} fill="{SOFT}">{escape(text)}</text>')
    return _svg("".join(lines) + bars, title)


def _axis(x: np.ndarray | None, size: int) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """Where each element lies between 0 and 1, and what is written where."""
    if x is None or not is_float(x):
        return np.arange(size) / size, [(0.0, "element 0"), (1.0, f"element {size - 1:,}")]
    x = np.ravel(x)
    order = _order(x)
    least, most = int(order.min()), int(order.max())
    wanted = [float(sign * 10.0**power) for sign in (-1, 1) for power in range(-36, 40, 3)] + [0.0]
    with np.errstate(over="ignore"):  # of a type that ends before
        values = np.array(wanted).astype(x.dtype)
    marks, before = [], -1.0
    for place, value in sorted(zip(_order(values).tolist(), wanted, strict=True)):
        at = (place - least) / max(1, most - least)
        if 0 <= at <= 1 and at - before > 0.07:
            marks.append((at, f"{value:g}"))
            before = at
    return (order - least) / max(1, most - least), marks


def _order(x: np.ndarray) -> np.ndarray:
    """Integers in the order of a float type's numbers, neighbours one apart; NaN lies beyond the infinities."""
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, -(bits & (2 ** (8 * x.dtype.itemsize - 1) - 1)), bits)


def _x(at: float) -> float:
    return LEFT + at * (WIDTH - LEFT)


def _height(ulp: float, top: float) -> float:
    share = (np.log10(max(ulp, 0.05)) + 1.3) / (top + 1.3)
    return HEIGHT - BELOW - float(share) * (HEIGHT - BELOW - ABOVE)


def _svg(body: str, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'style="font: 12px system-ui, sans-serif; background: var(--page, #fff)"><title>{escape(title)}</title>'
        f'<text x="{LEFT}" y="16" fill="{TEXT}">{escape(title)}</text>{body}'
        f'<text x="{LEFT}" y="{HEIGHT - 6}" fill="{SOFT}">largest error, in units in the last place</text></svg>\n'
    )
