"""pytest's loop over the ops of a run on a cluster: each test is told when its record comes, in that order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.items import OpItem

if TYPE_CHECKING:
    from harness.climber import Climber


def run(session: pytest.Session, climber: Climber) -> None:
    """Runs every test of the session; many ops are under way at once, one test at a time is told."""
    items = {item.row.op_id: item for item in session.items if isinstance(item, OpItem)}
    left = len(items)
    for row in climber.arrivals([item.row for item in items.values()]):
        left -= 1
        item = items[row.op_id]
        # Which test is next is not known yet: what is set up for the model of this one is taken down.
        following = session if left else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
