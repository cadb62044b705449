"""Cases of a test that are slow, since a quick case of the same test covers what they cover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def covered(cases: Iterable[str], by: Mapping[str, str]) -> list[Any]:
    """The cases, for `parametrize`; slow are those that `by` names a quick one for.

    Raises ValueError where `by` names what is no case, or has a slow case covered by another slow one.
    """
    cases = list(cases)
    for slow, quick in by.items():
        if slow not in cases or quick not in cases or quick in by:
            raise ValueError(f"covered: expected a case and a quick one that covers it, got {slow!r} and {quick!r}")
    return [pytest.param(case, marks=pytest.mark.slow) if case in by else case for case in cases]
