"""The time, memory and processes that the preparation of one model may take, and what ends only that model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from opscope.base import clocks
from opscope.base.children.ending import Cause, Ending, killed_from_outside
from opscope.base.machine import memory_limit
from opscope.base.slots import SlotAddress
from opscope.harness.record.errors import InputError

SECONDS = 900.0
"""Default of --prepare-timeout."""
EXPORT = "export"
"""The first step: the exporter, or the reading of a StableHLO file."""


class ModelRefused(InputError):
    """Bad input that is one model's: the other models run."""


class BudgetSpent(Exception):
    """The run's --budget ended while a model was prepared, or before; the text is the step that it had reached."""


class Killed(Exception):
    """Somebody else has ended a model's process, again and again; the text says how, and at which step."""


class Allowance:
    """What is left for a model that is being prepared, and the step that it is at."""

    def __init__(
        self,
        seconds: float = SECONDS,
        memory: int | None = None,
        until: float | None = None,
        check: Callable[[], None] = lambda: None,
        spent: float = 0.0,
        slots: SlotAddress | None = None,
    ) -> None:
        """The time begins now, less what is `spent`. `until` is the time (time.time) at which the run's budget ends.
        `check` is called while a child works, and raises what is to end it. Each process works in one of `slots`; with
        None there is one process, which needs none."""
        self.slots = slots
        self.seconds, self.memory = seconds, memory_limit(memory)
        self._end = clocks.awake() + seconds - spent
        self._budget_end = None if until is None else clocks.awake() + until - time.time()
        self.step, self.check = EXPORT, check

    def left(self) -> float:
        """Seconds that are left, not below zero."""
        end = self._end if self._budget_end is None else min(self._end, self._budget_end)
        return max(0.0, end - clocks.awake())

    def pause(self, seconds: float) -> None:
        """Leaves out time in which the model waited for a place to be prepared; the run's budget goes on."""
        self._end += seconds

    def as_json(self) -> dict[str, float | None]:
        """The time as another process can take it over (`from_json`)."""
        now = clocks.awake()
        budget = None if self._budget_end is None else self._budget_end - now
        return {"seconds": self.seconds, "spent": self.seconds - (self._end - now), "budget": budget}

    @classmethod
    def from_json(
        cls, values: dict[str, float], memory: int | None, check: Callable[[], None], slots: SlotAddress | None = None
    ) -> Allowance:
        """An allowance with the time that is left of another one, and this machine's memory and slots."""
        until = None if values["budget"] is None else time.time() + values["budget"]
        return cls(values["seconds"], memory, until, check, values["spent"], slots)

    @property
    def budget_is_spent(self) -> bool:
        """Whether the run's budget ended before the model's own time."""
        return self._budget_end is not None and self._budget_end < self._end and not self.left()

    def note(self, event: dict[str, Any]) -> None:
        """Takes a child's event, which may begin another step."""
        if event.get("event") == "stage":
            self.step = str(event["stage"])

    def reason(self, ending: Ending, at: str, line: str) -> str:
        """Why a child gave no result: what ended it, at which step (`at`), and what it printed last."""
        if ending.cause is Cause.TIMEOUT:
            return f"timeout at {at}: more than {self.seconds:g} s for all steps of the model; try --prepare-timeout"
        if ending.cause is Cause.MEMORY:
            return f"memory at {at}: {ending.text}; try --prepare-memory"
        if ending.from_outside:
            return f"{killed_from_outside(ending.kind)}, at {at}"
        return f"{ending.kind} at {at}: {line[:200] or 'no output'}"


Allowing = Callable[[Callable[[], None]], Allowance]
"""Makes the allowance of one model, by what is called while a child works on it."""
