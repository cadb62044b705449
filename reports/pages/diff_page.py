"""Prints a comparison of two runs or nights in the terminal."""

from __future__ import annotations

from opscope.base.document import in_terminal
from opscope.base.document.in_terminal import FEW, MOST
from opscope.base.page import Page
from opscope.reports.compare import first_sentence
from opscope.reports.compare.changed_causes import document, sections_of
from opscope.reports.compare.lowered_differently import Lowered
from opscope.reports.compare.what_changed import WhatChanged


def show(changed: WhatChanged, page: Page, most: int = MOST, team: str | None = None) -> None:
    """Prints what changed; of the one cause that was asked for all ops."""
    if not changed.cause:
        page.prose(changed.said.headline, "bold")
        dated = "" if changed.of_release else f" ({first_sentence.age(changed.newest)})"
        for line in filter(None, (f"{changed.said.about}{dated}", ", ".join(changed.said.chips))):
            page.prose(line, "dim")
    for diff, lowered in zip(changed.compared, changed.lowered, strict=False):
        if changed.cause:
            page.line(f"{diff.a.run_id} .. {diff.b.run_id}  {diff.b.series}", "bold")
            in_terminal.show(sections_of(diff), page, most, few=most)
        else:
            _show_lowered(lowered, page, most)
            in_terminal.show(document(diff, most, team), page, most)


def _show_lowered(lowered: Lowered, page: Page, most: int) -> None:
    """Prints what two releases lower, compute and abort differently, if their runs have kept what they made of ops."""
    if not lowered.sentence:
        return
    page.prose(lowered.sentence, "bold")
    for title, groups in (
        ("lower differently", lowered.lowering),
        ("compute differently", lowered.computing),
        ("compile or abort differently", (*lowered.compiling, *lowered.aborting)),
    ):
        if not groups:
            continue
        page.line(f"{title} ({len({op_id for group in groups for op_id in group.ops})})", "bold")
        for group in groups[:most]:
            page.prose(f"{len(group.ops)}  {group.what}", indent=2)
            for place in group.places[:FEW]:
                page.prose(place.text, indent=4)
            if len(group.places) > FEW:
                page.line(f"and {len(group.places) - FEW} more; see --json", indent=4)
            page.prose(f"smallest: {group.smallest} [{group.ops[0]}]", indent=4)
            page.line(group.command, "dim", indent=4)
        if len(groups) > most:
            page.line(f"and {len(groups) - most} more ways; see --limit, --json", indent=2)
    page.line()
