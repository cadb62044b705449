"""`opscope decode --json`: a line for each step."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from opscope.harness.decode import steps
from opscope.wire.answer import CONFIG


@dataclass(config=CONFIG, frozen=True)
class Step(steps.Step):
    """What one step of a decoder gave. Step 0 is the prompt."""

    model: str


PRINTS = Step
