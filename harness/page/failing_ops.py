"""The failing ops of a run, each cause once with its ops below it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Listing:
    """What the list of failing ops shows beside their records."""

    folder: Path | None
    """The user's folder: paths inside it are shown relative to it."""
    several: bool
    """Whether the run has more than one backend."""
    repros: Mapping[tuple[str, str], Path | str]
    """Repro folders by op id and backend."""
    listed_above: Collection[str] = ()
    """Ids of ops of which only title and repro folder are printed, since pytest's FAILURES has the rest."""

    def head(self, failing: int, groups: Sequence[Cause[OpTest]]) -> str:
        """The heading above all causes."""
        of = f", {len(groups)} causes" if len(groups) > 1 else ""
        above = "; FAILURES has their numbers and commands" if self.listed_above else ""
        return f"Failing ops ({failing}{of}){above}"

    def of_cause(self, cause: Cause[OpTest]) -> str:
        """The heading of one cause, with its counts."""
        on = f"; on {cause.first.backend}" if self.several else ""
        return one_line(cause.with_counts(f"{verdict_text(cause.first)}{on}", cause_of_test(cause.first)))


def show_causes(failing: Sequence[OpTest], console: Console, listing: Listing) -> None:
    """Prints three lines for each of the first causes: the section of a run of many models."""
    groups = causes(failing)
    _line(console, "")
    _line(console, listing.head(len(failing), groups), 0, TERMINAL["bad"])
    for cause in groups[:CAUSES]:
        first = cause.first
        _line(console, cut(listing.of_cause(cause), console.width - 2), 2)
        more = f" and {cause.ops - 1} more" if cause.ops > 1 else ""
        _line(console, cut(title(first) + more, console.width - 4), 4)
        _line(console, first.repro, 4, "dim")
    if left := sum(cause.ops for cause in groups[CAUSES:]):
        more = f"and {len(groups) - CAUSES} more causes, of {left} ops; see the report, or opscope unblock"
        _line(console, more, 2)


def show(failing: Sequence[OpTest], console: Console, listing: Listing) -> None:
    """Prints the section of failing ops: each cause, and below it its ops."""
    groups = causes(failing)
    _line(console, "")
    _line(console, listing.head(len(failing), groups), 0, TERMINAL["bad"])
    for cause in parts_within(groups, FAILING):
        print_prose(console, listing.of_cause(cause), indent=2)
        for test in cause.failures:
            _line(console, title(test), 4)
            if test.op_id not in listing.listed_above:
                _details(console, test, verdict_text(cause.first))
            if (test.op_id, test.backend) in listing.repros:
                script = f"{listing.repros[test.op_id, test.backend]}/run.sh"
                _line(console, with_short_paths(script, listing.folder), 6, "dim")
    if len(failing) > FAILING:
        _line(console, f"and {len(failing) - FAILING} more; see the report", 2)


def _details(console: Console, test: OpTest, heading: str) -> None:
    """An op's own verdict, where it is another than its cause's, its place, what may be wrong, and how to run it."""
    own = verdict_text(test) if verdict_text(test) != heading else ""
    if text := "; ".join(filter(None, (own, place_text(test)))):
        print_prose(console, one_line(text), indent=6)
    if test.hypothesis:
        print_prose(console, one_line(test.hypothesis), "cyan", indent=6)
    _line(console, test.repro, 6, "dim")  # whole: it runs in any folder


def _line(console: Console, text: str, indent: int = 0, style: str = "") -> None:
    from rich.text import Text

    console.print(Text(" " * indent + one_line(text), style=style), soft_wrap=True)


def with_short_paths(text: str, folder: Path | None) -> str:
    """`text` with paths inside `folder`, and their SQLite URLs, made relative to it."""
    if folder is None or folder == folder.parent:
        return text
    return re.sub(rf"(?:(?<![\w/.-])|(?<=sqlite:///)){re.escape(str(folder))}/(?=[\w.])", "", text)
