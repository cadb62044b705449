"""A decoder's steps as a table, as JSON lines, and as a chart of the drift."""

from __future__ import annotations

import math
from collections.abc import Sequence

from opscope.harness.decode.steps import TOP, Step

WIDTH, HEIGHT, MARGIN = 640, 320, 48
LEAST = -8
"""Power of ten of the smallest 1 - PCC that the chart shows."""
CURVES = (("logits_pcc", "#3366cc", "logits"), ("states_pcc", "#cc6633", "worst state"))


def table(steps: Sequence[Step]) -> str:
    """Returns one line per step, and what is wrong below it."""
    lines = ["step  likeliest  logits PCC  states PCC  worst state              top 1  top 5"]
    for step in steps:
        lines.append(
            f"{step.number:4d}  {step.token:9d}  {step.logits_pcc:10.6f}  {step.states_pcc:10.6f}  "
            f"{step.state:<23}  {'same' if step.top1 else 'other':>5}  {step.top5}/{TOP}"
        )
        lines += [f"      {problem}" for problem in step.problems]
    return "\n".join(lines)


def summary(name: str, steps: Sequence[Step]) -> str:
    """Returns the one line that says how it went."""
    bad = next((step for step in steps if step.problems), None)
    agreed = sum(step.top1 for step in steps)
    top = sum(step.top5 for step in steps) / (TOP * max(len(steps), 1))
    ended = f"first wrong at step {bad.number}: {bad.problems[0]}" if bad else "every step right"
    lowest = min((step.logits_pcc for step in steps), default=1.0)
    return (
        f"{name}: {len(steps) - 1} steps, {ended}; logits PCC at least {lowest:.6f}, top 1 {agreed}/{len(steps)}, "
        f"top 5 {100 * top:.1f} %"
    )


def json_lines(name: str, steps: Sequence[Step]) -> str:
    """Returns one JSON object per step."""
    from opscope.wire import decode
    from opscope.wire.answer import text_of

    return "".join(f"{text_of(decode.Step(**vars(step), model=name), indent=None)}\n" for step in steps)


def chart(name: str, steps: Sequence[Step]) -> str:
    """Returns the drift as SVG: 1 - PCC of logits and of the worst state, by step, on a logarithmic scale."""
    across = (WIDTH - 2 * MARGIN) / max(len(steps) - 1, 1)
    down = (HEIGHT - 2 * MARGIN) / -LEAST

    def place(number: int, pcc: float) -> str:
        drift = max(LEAST, min(0.0, math.log10(max(1.0 - pcc, 10.0**LEAST))))
        return f"{MARGIN + across * number:.1f},{MARGIN - down * drift:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f"<title>Drift of {name}</title>",
        f'<text x="{MARGIN}" y="20">{name}: 1 - PCC by step</text>',
    ]
    for power in range(LEAST, 1, 2):
        y = MARGIN - down * power
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="4" y="{y + 4:.1f}">1e{power}</text>')
    for at, (field, colour, label) in enumerate(CURVES):
        points = " ".join(place(step.number, getattr(step, field)) for step in steps)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
        x = MARGIN + 120 * at
        parts.append(f'<text x="{x}" y="{HEIGHT - 12}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</svg>", ""])
