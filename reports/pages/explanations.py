"""Why numbers are wrong, for report.html: what the run folder explains of each failing op, drawn as SVG and text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from opscope.harness.record import explanation, explanation_picture, explanation_text
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Status

MOST = 50
"""Largest number of ops that one page explains."""
MOST_WORST = 6


class Why(NamedTuple):
    """The explanation of one wrong result."""

    number: int
    reason: str
    hypothesis: str
    share: str
    worst: list[dict[str, Any]]
    picture: str
    """An SVG element; its texts are escaped."""
    note: str
    file: str
    """Path of the device's result in the run folder."""


def of_tests(run_dir: Path | None, tests: Iterable[OpTest]) -> dict[tuple[str, str], list[Why]]:
    """(op id, backend) -> the explanations of its wrong results; of failures before expected ones and of ops with the
    most uses first, and no others if there are many."""
    if run_dir is None:
        return {}
    wrong = [test for test in tests if test.status == Status.WRONG_RESULT]
    wrong.sort(key=lambda test: (not test.fails_run, -test.uses))
    explanations: dict[tuple[str, str], list[Why]] = {}
    for test in wrong:
        if len(explanations) == MOST:
            break
        if (known := explanation.shown(run_dir, test)) is not None:
            folder = Path(str(test.artifact)).parent
            explanations[test.op_id, test.backend] = [_why(result, folder, run_dir) for result in known.results]
    return explanations


def _why(result: explanation.ResultExplanation, folder: Path, run_dir: Path) -> Why:
    share = ""
    if result.wrong is not None and result.count:
        limit = "differ" if result.z_limit is None else f"are beyond {result.z_limit:.3g} of their scale"
        percent = explanation_text.percent(result.wrong, result.count)
        share = f"{result.wrong:,} of {result.count:,} elements {limit} ({percent})"
    worst = [
        {
            "index": explanation_text.index_text(each.index),
            "expected": each.expected,
            "got": each.got,
            "z": "" if each.z is None else f"{each.z:.3g}",
            "place": each.place,
            "terms": [term.text for term in each.terms],
            "note": each.terms_note,
        }
        for each in result.worst[:MOST_WORST]
    ]
    file = (folder / result.file).as_posix() if result.file and (run_dir / folder / result.file).is_file() else ""
    picture = explanation_picture.result_picture(result)
    return Why(result.number, result.reason, result.hypothesis, share, worst, picture, result.note, file)
