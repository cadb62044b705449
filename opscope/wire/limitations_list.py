"""`opscope limitations list --json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import PlainSerializer
from pydantic.dataclasses import dataclass

from opscope.harness.limitations import limitations
from opscope.wire.answer import CONFIG


def _sorted(values: Iterable[str]) -> list[str]:
    return sorted(values)


@dataclass(config=CONFIG, frozen=True)
class Limitation(limitations.Limitation):
    """An expected failure, as the row of its file has it."""

    families: Annotated[frozenset[str], PlainSerializer(_sorted, return_type=list[str])] = frozenset()


PRINTS: Any = list[Limitation]
