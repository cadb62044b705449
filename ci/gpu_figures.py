"""Prints what a run on a device says, as Markdown: `python -m ci.gpu_figures RUN`.

For each backend: verdicts, how long its ops run, and for each op name its worst error over its own scale (verdicts.md)
beside that of XLA on the host.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Test = Mapping[str, Any]


def figures(tests: Sequence[Test]) -> Iterator[str]:
    """The lines: a table of backends, one of op names, and every op that is not right."""
    of_backend: dict[str, list[Test]] = defaultdict(list)
    for test in tests:
        of_backend[test["backend"]].append(test)
    yield from table(
        ("backend", "card", "ops", "verdicts", "median run", "slowest run", "all runs"),
        (
            (
                name,
                ", ".join(sorted({test["card_type"] for test in tests})),
                str(len(tests)),
                _verdicts(tests),
                *_times(tests),
            )
            for name, tests in sorted(of_backend.items())
        ),
    )
    yield ""
    yield from table(("op", *(f"worst error on {name}" for name in sorted(of_backend))), _worst(of_backend))
    wrong = [test for test in tests if test["status"] not in ("success", "skipped", "no_golden")]
    if wrong:
        yield ""
        yield from table(
            ("backend", "op", "id", "verdict", "error"),
            ((test["backend"], test["op_name"], test["op_id"], test["status"], _one_line(test)) for test in wrong),
        )


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"


def _verdicts(tests: Sequence[Test]) -> str:
    return ", ".join(f"{count} {status}" for status, count in Counter(test["status"] for test in tests).most_common())


def _times(tests: Sequence[Test]) -> tuple[str, str, str]:
    times = [test["run_ns"] / 1000 for test in tests if test["run_ns"] is not None]
    if not times:
        return "", "", ""
    return f"{statistics.median(times):.0f} us", f"{max(times):,.0f} us", f"{sum(times) / 1e6:.2f} s"


def _worst(of_backend: Mapping[str, Sequence[Test]]) -> Iterator[Sequence[str]]:
    """For each op name the largest error over its scale on each backend; the farthest first."""
    worst: dict[str, dict[str, float]] = defaultdict(dict)
    for backend, tests in of_backend.items():
        for test in tests:
            if test["z_max"] is not None:
                errors = worst[test["op_name"]]
                errors[backend] = max(errors.get(backend, 0.0), abs(test["z_max"]))
    for name, errors in sorted(worst.items(), key=lambda item: -max(item[1].values())):
        yield name, *(f"{errors[backend]:.3g}" if backend in errors else "exact" for backend in sorted(of_backend))


def _one_line(test: Test) -> str:
    return " ".join((test["error_message"] or "").split())[:160]


def main(run: str) -> None:
    """Prints the figures of a run folder."""
    shown = subprocess.run(
        [sys.executable, "-m", "opscope.harness.cli.main", "show", run, "--json"], capture_output=True, check=True
    )
    for line in figures(json.loads(shown.stdout)["op_tests"]):
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
