"""A child that takes its time to answer, with and without signs of life."""

from __future__ import annotations

import time

from opscope.base.children.inside import Parent
from opscope.simulator.host.processes.signs_of_life import SignsOfLife


def serve(parent: Parent) -> None:
    """Answers each command `{"seconds": S, "signs": B}` after S seconds."""
    signs = SignsOfLife(parent)
    while (command := parent.receive()) is not None:
        if command["signs"]:
            signs.begin()
        time.sleep(command["seconds"])
        signs.answer({"slept": command["seconds"]})
