"""pytest's loop over the ops of a run on a cluster: each test is told when its record comes, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from opscope.harness.run.items import OpItem

if TYPE_CHECKING:
    from opscope.harness.climb.climber import Climber


def run(session: pytest.Session, climbers: Mapping[str, Climber]) -> None:
    """Runs every test of the session; many ops are under way at once, one test at a time is told.

    `climbers` by the tag of their backend: one backend comes after the other.
    """
    for item in [item for item in session.items if not isinstance(item, OpItem)]:
        _tell(session, item)
    for tag, climber in climbers.items():
        items = {item.row.op_id: item for item in session.items if isinstance(item, OpItem) and item.tag == tag}
        for row in climber.arrivals([item.row for item in items.values()]):
            _tell(session, items[row.op_id])


def _tell(session: pytest.Session, item: pytest.Item) -> None:
    """One test. Which is next is not known yet: what is set up for the model of this one is taken down."""
    following: Any = session
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
