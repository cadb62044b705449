"""`opscope gate --old A --new B --json`."""

from __future__ import annotations

from pydantic import computed_field
from pydantic.dataclasses import dataclass

from opscope.reports.nightly.uplift import Uplift
from opscope.wire.answer import CONFIG


@dataclass(config=CONFIG, frozen=True)
class Gate(Uplift):
    """What a new build of a compiler changes."""

    @computed_field
    @property
    def verdict(self) -> str:
        """`worse` or `not worse`."""
        return super().verdict


PRINTS = Gate
