"""Values of options at the limits of their types."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from opscope.base.tests.each import each
from opscope.harness.record import option_types as types
from opscope.harness.record.errors import InputError, closest


@each(
    ("kind", "text", "value"),
    [
        (types.Count, "0", 0),
        (types.Seconds, "0.001", 0.001),
        (types.Duration, "1h30m", 5400),
        (types.Duration, "90s", 90),
        (types.Duration, "0.5m", 30),
        (types.Size, "1B", 1),
        (types.Size, 1, 1),
        (types.Size, "8GiB", 8 * 2**30),
        (types.Size, "1.5kb", 1536),
        (types.Size, "2M", 2**21),
        (types.Size, "3GB", 3 * 2**30),
        (types.Size, "1TiB", 2**40),
        (types.Duration, "1h1m1s", 3661),
        (types.Integer, "0x10", 16),
        (types.Integer, "-7", -7),
        (types.Sizes, " b=4, arg0=4x16 ", "arg0=4x16,b=4"),
        (types.Sizes, ["b=4", "b=4,c=1"], "b=4,c=1"),
        (types.Sizes, {"b": 4, "arg0": (4, 16)}, "arg0=4x16,b=4"),
        (types.SizeOrNone, "0", 0),
        (types.Share, "1/1", "1/1"),
        (types.Share, " 2 / 4 ", "2/4"),
        (types.Share, "4/4", "4/4"),
        (types.Share, "10000/10000", "10000/10000"),
    ],
)
def test_values_at_the_limit_are_read(kind: Any, text: object, value: object) -> None:
    assert types.read(TypeAdapter(kind), "--x", text) == value


@each(
    ("kind", "text", "expected", "hint"),
    [
        (types.Count, "-1", "a whole number from 0 on", "0"),
        (types.Integer, "1.5", "an integer", "0"),
        (types.Flag, "maybe", "true or false", ""),
        (types.Seconds, "0", "a number of seconds above 0", "60"),
        (types.Seconds, "inf", "a number of seconds above 0", "60"),
        (types.Duration, "0s", "a time with a unit", "30m, 90s or 1h30m"),
        (types.Duration, "90", "a time with a unit", "30m, 90s or 1h30m"),
        (types.Size, "0", "a size above 0 with a unit", "8GiB"),
        (types.Size, "8", "a size above 0 with a unit", "8GiB"),
        (types.Size, "8 apples", "a size above 0 with a unit", "8GiB"),
        (types.SizeOrNone, "none", "a size with a unit, or 0 for none", "64MiB"),
        (types.SizeOrNone, "64", "a size with a unit, or 0 for none", "64MiB"),
        (types.Share, "0/4", "a share from 1/4 to 4/4", "1/4"),
        (types.Share, "5/4", "a share from 1/4 to 4/4", "4/4"),
        (types.Share, "2/1", "a share from 1/1 to 1/1", "1/1"),
        (types.Share, "1/0", "I/N with N from 1 to 10000", "1/4"),
        (types.Share, "1/10001", "I/N with N from 1 to 10000", "1/4"),
        (types.Sizes, "b=0", "NAME=SIZE with sizes above 0", "batch=4 or arg0=4x16"),
        (types.Scheduler, "localhost", "the address of a Dask scheduler", "tcp://127.0.0.1:8786"),
    ],
)
def test_values_beyond_the_limit_are_refused(kind: Any, text: str, expected: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        types.read(TypeAdapter(kind), "--x", text)
    assert str(caught.value) == f"--x: expected {expected}, got {text!r}" + f"; try {hint}" * bool(hint)


def test_one_dimension_has_one_size() -> None:
    with pytest.raises(InputError) as caught:
        types.read(TypeAdapter(types.Sizes), "--shape", ["b=4", "c=1", "b=5"])
    assert str(caught.value) == "--shape: expected one size for 'b', got 4 and 5"


def test_a_choice_is_read_by_its_word_or_its_value() -> None:
    assert types.choice("1", (0, 1)) == 1
    assert types.choice("f32", {"f32": "float32"}) == "float32"
    with pytest.raises(InputError) as caught:
        types.read(TypeAdapter(Annotated[int, types.one_of((0, 1, 2))]), "--level", 3)
    assert str(caught.value) == "--level: expected one of 0, 1, 2, got 3; try 0, 1, 2"


def test_a_refusal_of_pydantics_own_is_one_line() -> None:
    with pytest.raises(InputError) as caught:
        types.read(TypeAdapter(int), "--x", "many")
    assert str(caught.value) == "--x: expected a valid integer, unable to parse string as an integer, got 'many'"


def test_the_closest_of_what_is_known_is_offered_or_the_newest() -> None:
    known = ["run-3", "run-1", "other", "run-2", "run-4"]
    assert closest("run-1", known) == "run-1, run-4, run-3"
    assert closest("zzz", known) == "other, run-1, run-2, run-3, run-4"
    assert closest("zzz", known, 2) == "run-4, run-3"
    assert closest("abxx", ["abyyyy", "abyy"]) == "abyy, abyyyy"  # half and 0.4 of their letters are the same
    assert closest("abxx", ["abyyyyy", "z"], 1) == "z"
    assert closest("run", ["run1", "run2", "run3", "run4"]) == "run4, run3, run2"
    assert closest("zzz", known, 3) == "run-4, run-3, run-2"
