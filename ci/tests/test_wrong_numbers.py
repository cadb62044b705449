"""Seeded wrong results are refused and honest ones are not: a few of small ops here, all of them slowly."""

from __future__ import annotations

import functools

import pytest

from ci.wrong_numbers import composites
from ci.wrong_numbers.__main__ import LEAST, main
from ci.wrong_numbers.cases import CASES
from ci.wrong_numbers.honest import HONEST
from ci.wrong_numbers.ops import Ran, run
from ci.wrong_numbers.wrong import WRONG

QUICK = {
    "host": (
        "x 1.003: multiply bf16 100",
        "truncated: multiply bf16 64",
        "off 2e-4: log f32 near 1",
        "through f32: add f64 64",
        "sign of zero lost: negate -0",
        "a unit off: next_after",
        "5 units off: i1 to f16",
    ),
    "card": (
        "x 1.003: multiply bf16 100",
        "truncated: multiply bf16 64",
        "noise 5e-4: dot f64 128",
        "sign of zero lost: slice bf16 -0",
    ),
}
"""Faults that an earlier version of the verdict took for rounding."""


@functools.cache
def ran(case: str, place: str) -> Ran:
    """A case at a place, once for all of its faults."""
    ran = run(CASES[case], 7, place)
    assert ran is not None
    return ran


def test_there_are_as_many_as_said():
    assert (len(WRONG), len(HONEST)) == (169, 94)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["host", "card"])
def test_what_once_passed_is_refused(place: str):
    for name in QUICK[place]:
        (wrong,) = (wrong for wrong in WRONG if f"{wrong.kind}: {wrong.case}" == name)
        op = ran(wrong.case, place)
        assert op.verdict(op.got).passed, name
        result = wrong.change(op)
        assert not op.verdict(result).passed, name
        assert not op.hidden(result), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4])
def test_wrong_results_are_refused_and_honest_ones_are_not(seed: int):
    assert LEAST == {"host": 0.95, "card": 0.90}
    assert main(["--seed", str(seed)]) == 0


def test_other_ways_to_write_formulas_are_right_and_tampered_ones_are_not():
    """Each place and each of two formulas once; slow: every formula at each place."""
    assert (
        composites.main(["host", "card", "--only", "silu"]) == composites.main(["steps", "--only", "var(axis=-1)"]) == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_all_ways_to_write_formulas_are_right(seed: int):
    assert composites.main(["host", "steps", "card", "--seed", str(seed)]) == 0
