"""Scores of a suite as text, as JSON and as the section of docs/conformance.md."""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence

from opscope.base.visible_text import cut
from opscope.harness.suites.faults import OURS, Fault, Score, counts

COLUMNS = (Fault.NEVER, Fault.IMPORTER, *OURS)


def one_line(scores: Sequence[Score]) -> str:
    """All counts: `1404 cases: 905 right (...), never 61, importer 438, ours 0 (...)`."""
    total = collections.Counter(score.fault for score in scores)
    places = collections.Counter(score.ran_on for score in scores if score.fault is Fault.NONE)
    right = ", ".join(f"{name} {number}" for name, number in sorted(places.items()))
    ours = ", ".join(f"{fault} {total[fault]}" for fault in OURS)
    return (
        f"{len(scores)} cases: {total[Fault.NONE]} right ({right}), never {total[Fault.NEVER]}, "
        f"importer {total[Fault.IMPORTER]}, ours {sum(total[fault] for fault in OURS)} ({ours})"
    )


def to_json(scores: Sequence[Score]) -> str:
    """One object per case."""
    from opscope.wire import answer
    from opscope.wire import score as wire

    return answer.text_of(scores, wire.PRINTS) + "\n"


def to_markdown(scores: Sequence[Score], versions: str) -> str:
    """The section: counts, a row per op with a case that is not right, then the cases that are wrong."""
    lines = [
        "## The node tests of ONNX",
        "",
        f"`opscope score suite:onnx` runs the node tests that the package `onnx` ships ({versions}) through importer,",
        "compiler and simulator (n150) and judges each by its own stored answers. Cases that only repeat another one",
        "by the function body of its op are left out. The columns tell whose fault a difference is. `importer`:",
        "torch-mlir refuses the graph, or XLA computes other numbers from its module although the standard's reference",
        "gets the stored ones from the graph; `frontend`, `compiler`, `device` and `comparison` are ours. `never`:",
        "strings, sequences and optional values, draws, and answers that the number formats of a board cannot hold.",
        "",
        one_line(scores) + ".",
        "",
        f"| op | right | {' | '.join(COLUMNS)} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
    ]
    table = counts(scores)
    for op, c in table.items():
        if c[Fault.NONE] < c.total():
            cells = " | ".join(str(c[fault] or "") for fault in COLUMNS)
            lines.append(f"| `{_op(op)}` | {c[Fault.NONE]} | {cells} |")
    whole = [_op(op) for op, c in table.items() if c[Fault.NONE] == c.total()]
    lines += ["", f"All cases right: {', '.join(whole)}.", ""]
    faults = [s for s in scores if s.fault in OURS or (s.fault is Fault.IMPORTER and s.why.startswith("XLA:"))]
    lines += ["### Faults of the importer in numbers, and ours", ""]
    lines += ["| case | fault | what |", "|---|---|---|"] if faults else ["None."]
    lines += [f"| {score.name} | {score.fault} | {_cell(score.why)} |" for score in faults]
    return "\n".join(lines) + "\n"


def _op(name: str) -> str:
    parts = name.split("+")
    return name if len(parts) < 3 else f"{parts[0]}+{len(parts) - 1} more"


def _cell(text: str) -> str:
    return cut(re.sub(r"\s+", " ", text).replace("|", "\\|"), 160)
