"""pytest's loop over the ops of a run on a cluster: each test ends when its record arrives, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from opscope.harness.run.items import OpItem

if TYPE_CHECKING:
    from opscope.harness.climb.climber import Climber


def run(session: pytest.Session, climbers: Mapping[str, Climber]) -> None:
    """Runs every test of the session: many ops run at once, and tests are reported one at a time.

    `climbers` has the climbers by the tags of their backends, which run one after the other.
    """
    for item in [item for item in session.items if not isinstance(item, OpItem)]:
        run_test(session, item)
    for tag, climber in climbers.items():
        items = {item.row.op_id: item for item in session.items if isinstance(item, OpItem) and item.tag == tag}
        for row in climber.arrivals([item.row for item in items.values()]):
            run_test(session, items[row.op_id])


def run_test(session: pytest.Session, item: pytest.Item) -> None:
    """Reports one test. As the next test is not known yet, the set-up of this one's model is torn down."""
    next_item: Any = session
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
