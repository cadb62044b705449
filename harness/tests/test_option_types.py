"""Values of options at the limits of their types."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from opscope.harness.record import option_types as types
from opscope.harness.record.errors import InputError


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (types.Count, "0", 0),
        (types.Seconds, "0.001", 0.001),
        (types.Duration, "1h30m", 5400),
        (types.Duration, "90s", 90),
        (types.Duration, "0.5m", 30),
        (types.Size, "1", 1),
        (types.Size, "8GiB", 8 * 2**30),
        (types.Size, "1.5kb", 1536),
        (types.SizeOrNone, "0", 0),
        (types.Share, "1/1", "1/1"),
        (types.Share, " 2 / 4 ", "2/4"),
        (types.Share, "4/4", "4/4"),
        (types.Share, "10000/10000", "10000/10000"),
    ],
)
def test_what_is_just_right(kind: Any, text: str, value: object) -> None:
    assert types.read(TypeAdapter(kind), "--x", text) == value


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (types.Count, "-1", "a whole number from 0 on"),
        (types.Seconds, "0", "a number of seconds above 0"),
        (types.Seconds, "inf", "a number of seconds above 0"),
        (types.Duration, "0s", "a time above 0"),
        (types.Duration, "90", "a time above 0"),
        (types.Size, "0", "a size of memory above 0"),
        (types.Size, "8 apples", "a size of memory above 0"),
        (types.Share, "0/4", "a share from 1/4 to 4/4"),
        (types.Share, "5/4", "a share from 1/4 to 4/4"),
        (types.Share, "1/0", "I/N with N from 1 to 10000"),
        (types.Share, "1/10001", "I/N with N from 1 to 10000"),
    ],
)
def test_what_is_just_wrong(kind: Any, text: str, expected: str) -> None:
    with pytest.raises(InputError, match=f"--x: expected {expected}"):
        types.read(TypeAdapter(kind), "--x", text)
