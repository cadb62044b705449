"""The failing ops of a run, each cause once with its ops below it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.statuses import TERMINAL
from opscope.base.terminal import print_prose
from opscope.base.visible_text import cut, one_line
from opscope.harness.record.causes import Cause, by_cause, cause_of_test, parts_within
from opscope.harness.record.optest import title
from opscope.harness.record.records import OpTest
from opscope.harness.record.signature import shorten
from opscope.harness.record.stages import FAILED

if TYPE_CHECKING:
    from rich.console import Console

CAUSES = 10
"""How many causes are shown where each has three lines."""
FAILING = 30
"""How many failures are listed; the report has the rest."""


def causes(failing: Sequence[OpTest]) -> list[Cause[OpTest]]:
    """Failures that ended in the same way for the same reason, the cause with the most uses first."""
    by_uses = sorted(failing, key=lambda test: -test.uses)
    return by_cause(by_uses, _cause, lambda test: test.uses)


def _cause(test: OpTest) -> tuple[object, ...]:
    return test.backend, test.status, test.failed_stage, cause_of_test(test), test.flaky, test.expected


def verdict_text(test: OpTest) -> str:
    """How and why an op failed; of limited length."""
    stage = f" at {test.failed_stage}" if test.failed_stage else ""
    reason = shorten(test.error_message or test.crash_kind or "")
    expectation = test.expected if test.status not in FAILED else ""
    flaky = f"{test.stability}: " if test.flaky else ""
    return expectation or f"{flaky}{test.status.value}{stage}: {reason}".removesuffix(": ")


def place_text(test: OpTest) -> str:
    """Where in the model an op comes from; empty if that is unknown."""
    more = f" and {test.uses - 1} more" if test.uses > 1 else ""
    return f"from {test.locations[0]}{more}" if test.locations else ""


def show(
    failing: Sequence[OpTest],
    console: Console,
    folder: Path | None,
    *,
    several: bool,
    folders: Mapping[tuple[str, str], Path | str],
    listed_above: Collection[str] = (),
    brief: bool = False,
) -> None:
    """Prints the section of failing ops; `brief`: three lines for each of the first causes.

    `folders` are repro folders by op id and backend. `several`: whether the run has more than one backend. Of an op
    whose id is in `listed_above` only title and repro folder are printed, since pytest's FAILURES has the rest.
    """
    from rich.text import Text

    def line(text: str, indent: int, style: str = "") -> None:
        console.print(Text(" " * indent + one_line(text), style=style), soft_wrap=True)

    groups = causes(failing)
    of = f", {len(groups)} causes" if len(groups) > 1 else ""
    above = "; FAILURES has their numbers and commands" if listed_above else ""
    console.print(Text(f"\nFailing ops ({len(failing)}{of}){above}", TERMINAL["bad"]), soft_wrap=True)
    if brief:
        for cause in groups[:CAUSES]:
            first = cause.first
            heading = f"{verdict_text(first)}{f'; on {first.backend}' if several else ''}"
            line(cut(one_line(cause.with_counts(heading, cause_of_test(first))), console.width - 2), 2)
            line(cut(title(first) + (f" and {cause.ops - 1} more" if cause.ops > 1 else ""), console.width - 4), 4)
            line(first.repro, 4, "dim")
        if left := sum(cause.ops for cause in groups[CAUSES:]):
            line(f"and {len(groups) - CAUSES} more causes, of {left} ops; see the report, or opscope unblock", 2)
        return
    for cause in parts_within(groups, FAILING):
        first = cause.first
        heading = f"{verdict_text(first)}{f'; on {first.backend}' if several else ''}"
        print_prose(console, one_line(cause.with_counts(heading, cause_of_test(first))), indent=2)
        for test in cause.failures:
            line(title(test), 4)
            known = test.op_id in listed_above
            if not known:
                own = verdict_text(test) if verdict_text(test) != verdict_text(first) else ""
                if text := "; ".join(filter(None, (own, place_text(test)))):
                    print_prose(console, one_line(text), indent=6)
                if test.hypothesis:
                    print_prose(console, one_line(test.hypothesis), "cyan", indent=6)
                line(test.repro, 6, "dim")  # whole: it runs in any folder
            if (test.op_id, test.backend) in folders:
                line(with_short_paths(f"{folders[test.op_id, test.backend]}/run.sh", folder), 6, "dim")
    if len(failing) > FAILING:
        line(f"and {len(failing) - FAILING} more; see the report", 2)


def with_short_paths(text: str, folder: Path | None) -> str:
    """`text` with paths inside `folder`, and their SQLite URLs, made relative to it."""
    if folder is None or folder == folder.parent:
        return text
    return re.sub(rf"(?:(?<![\w/.-])|(?<=sqlite:///)){re.escape(str(folder))}/(?=[\w.])", "", text)
