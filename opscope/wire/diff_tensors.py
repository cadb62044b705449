"""`opscope diff-tensors --json`."""

from __future__ import annotations

from typing import Any

from pydantic.dataclasses import dataclass

from opscope.harness.triage import diff_tensors
from opscope.wire.answer import CONFIG


@dataclass(config=CONFIG, frozen=True)
class Difference(diff_tensors.Difference):
    """One element that differs."""

    size: float | None
    """Distance of the values; null where one of them alone is NaN or infinite."""


@dataclass(config=CONFIG, frozen=True)
class Compared(diff_tensors.Compared):
    """Two tensors."""

    worst: tuple[Difference, ...]


def of(compared: diff_tensors.Compared) -> Compared:
    """Two tensors as they are printed."""
    worst = tuple(Difference(**vars(each)) for each in compared.worst)
    return Compared(**{**vars(compared), "worst": worst})


PRINTS: Any = list[Compared]
