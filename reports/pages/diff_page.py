"""What `opscope diff` prints: the sentence, what releases lower differently, and each comparison."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from opscope.base.document import in_terminal
from opscope.base.document.in_terminal import FEW, MOST
from opscope.base.document.nodes import Node, Words
from opscope.base.night_grid.grid import age
from opscope.base.page import Page
from opscope.reports.compare.changed_causes import document, sections_of
from opscope.reports.compare.lowered_differently import Lowered
from opscope.reports.compare.what_changed import WhatChanged


def show(changed: WhatChanged, page: Page, most: int = MOST, team: str | None = None) -> None:
    """Prints what changed; of the one cause that was asked for all ops."""
    in_terminal.show(_nodes(changed, most, team), page, most, most if changed.cause else FEW)


def _nodes(changed: WhatChanged, most: int, team: str | None) -> Iterator[Node]:
    if not changed.cause:
        yield Words(changed.said.headline, "strong")
        dated = "" if changed.of_release else f" ({age(changed.newest, datetime.now(UTC))})"
        lines = (f"{changed.said.about}{dated}", ", ".join(changed.said.chips))
        yield from (Words(line, "note") for line in filter(None, lines))
    for diff, lowered in zip(changed.compared, changed.lowered, strict=False):
        if changed.cause:
            yield Words(f"{diff.a.run_id} .. {diff.b.run_id}  {diff.b.series}", "strong", whole=True)
            yield from sections_of(diff)
        else:
            yield from _lowered(lowered, most)
            yield from document(diff, most, team)


def _lowered(lowered: Lowered, most: int) -> Iterator[Words]:
    """What two releases lower, compute and abort differently, if their runs have kept what they made of ops."""
    if not lowered.sentence:
        return
    yield Words(lowered.sentence, "strong")
    for title, groups in (
        ("lower differently", lowered.lowering),
        ("compute differently", lowered.computing),
        ("compile or abort differently", (*lowered.compiling, *lowered.aborting)),
    ):
        if not groups:
            continue
        yield Words(f"{title} ({len({op_id for group in groups for op_id in group.ops})})", "strong", whole=True)
        for group in groups[:most]:
            yield Words(f"{len(group.ops)}  {group.what}", level=1)
            yield from (Words(place.text, level=2) for place in group.places[:FEW])
            if len(group.places) > FEW:
                yield Words(f"and {len(group.places) - FEW} more; see --json", level=2)
            yield Words(f"smallest: {group.smallest} [{group.ops[0]}]", level=2)
            yield Words(group.command, "note", whole=True, level=2)
        if len(groups) > most:
            yield Words(f"and {len(groups) - most} more ways; see --limit, --json", level=1)
    yield Words("")
