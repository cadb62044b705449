"""z of single elements by hand, under each error model, and the limits of the three questions on both sides."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.verdict import unrounded
from opscope.harness.verdict.check import check_unrounded
from opscope.harness.verdict.places import blocks_of, groups, index_of, name_of
from opscope.harness.verdict.scores import Scale, Scores, chunks
from opscope.harness.verdict.steps import Steps
from opscope.harness.verdict.target import HOST
from opscope.harness.verdict.tolerance import tolerance
from opscope.harness.verdict.unrounded import Unrounded

GOLDEN = np.array([[1.0, -2.0, 4.0, 0.5], [0.0, 8.0, -1.0, 2.0]])
TERMS = np.array([[3.0, 1e-9, 5.0, 1.0], [0.0, 8.0, 1.0, 2.0]])
MOVED = np.array([[0.5, 0.25, 0.0, 1.0], [0.125, 0.0, 2.0, 1.0]])
SIZE = np.abs(GOLDEN)


def scale(steps, terms=None, moved=None, golden=GOLDEN):
    flat = [None if each is None else each.ravel() for each in (terms, moved)]
    return Scale(steps, *flat).of(slice(0, golden.size), golden.ravel(), golden.shape[-1]).reshape(golden.shape)


def test_a_bound_adds_what_every_step_costs():
    steps = Steps("bound", function=0.5, cut=(0.25, 0.125), left_out=1.0, packed=3.0, declared=2.0)
    assert scale(steps).tolist() == ((0.5 + 0.375 + 1 + 3 + 2) * SIZE).tolist()
    assert scale(steps, moved=MOVED).tolist() == (6.875 * SIZE + MOVED).tolist()
    assert scale(Steps("bound", function=0.5)).tolist() == (0.5 * SIZE).tolist()
    assert scale(Steps("bound", packed=1.0, declared=4.0)).tolist() == (8 * SIZE).tolist()


def test_a_block_is_packed_by_its_largest_value():
    golden = np.arange(1.0, 41.0).reshape(2, 20)
    largest = np.repeat([[16.0, 20.0], [36.0, 40.0]], [16, 4], axis=1)
    steps = Steps("bound", packed=0.5, declared=0.25, block=True)
    assert scale(steps, golden=golden).tolist() == (0.25 * golden + 0.5 * largest).tolist()
    steps = Steps("bound", packed=0.125, declared=0.25, block=True)
    assert scale(steps, golden=golden).tolist() == (0.25 * golden + 0.25 * largest).tolist()


def test_a_sum_adds_squares():
    steps = Steps("sum", stored=1.0, cut=(2.0, 3.0), added=0.5, function=0.25, packed=4.0, declared=1.0)
    operand = 0.25 * (4 + 9 + 1 + 1)
    own = 0.25 + 0.0625 + (0.5 * 5) ** 2
    terms = np.maximum(TERMS, 1e-3 * SIZE)
    square = terms**2 * (operand + 0.25) + SIZE**2 * own + (5 * SIZE) ** 2
    assert scale(steps, TERMS) == pytest.approx(np.sqrt(square))
    assert scale(steps, TERMS, MOVED) == pytest.approx(np.sqrt(square + (0.5 * MOVED) ** 2))
    without = SIZE**2 * (operand + 0.25 + own + 25)
    assert scale(steps) == pytest.approx(np.sqrt(without))


def test_a_sum_of_zeros_is_packed_as_zero_beside_anything():
    steps = Steps("sum", packed=1.0, block=True)
    assert scale(steps, TERMS) == pytest.approx(np.array([[4, 4, 4, 4], [0, 8, 8, 8]]))


def test_a_part_is_relative_to_its_row():
    steps = Steps("part", function=0.5)
    row = np.sqrt(np.mean(SIZE**2, axis=1, keepdims=True))
    assert scale(steps) == pytest.approx(0.5 * np.hypot(SIZE, row))
    assert scale(steps, moved=MOVED) == pytest.approx(np.hypot(0.5 * SIZE, MOVED))


def scored(steps, golden, error, terms=None, step=None):
    golden, error = np.atleast_1d(golden).astype(np.float64), np.atleast_1d(error).astype(np.float64)
    scores = Scores(Scale(steps, terms), golden.shape)
    for start, end in chunks(golden.size, scores.columns, step or golden.size):
        scores.take(start, golden.ravel()[start:end], error.ravel()[start:end])
    return scores


BOUND, ADDED = Steps("bound", function=0.125), Steps("sum", function=0.125)


def test_the_largest_is_found_wherever_it_is_and_whatever_its_sign():
    golden = np.ones((6, 16))
    for at, value in (((0, 0), 0.25), ((2, 5), -0.25), ((5, 15), -0.5)):
        error = np.full(golden.shape, 0.0625)
        error[at] = value
        for step in (16, 32, 96):
            scores = scored(BOUND, golden, error, step=step)
            assert (scores.largest, scores.at) == (8 * abs(value), at[0] * 16 + at[1])
    assert scored(BOUND, [0.0, 1.0], [1e-3, 0.0]).largest == 1e9
    assert scored(BOUND, [1.0, 0.0], [0.125, 0.0]).largest == 1
    assert scored(BOUND, [1.0, 1.0], [0.0, 0.0]).at == -1
    assert scored(BOUND, [1.0, 1.0, 1.0], [-0.25, 0.25, 0.125]).at == 1  # of both signs the one that is too large
    assert scored(BOUND, np.ones(32), np.full(32, 0.25), step=16).at == 0  # of several the first
    # Nothing is worse than an error without a scale.
    error = np.where(np.arange(32) == 20, 1e9, 0.25)
    worst = scored(BOUND, np.where(np.arange(32) == 3, 0.0, 1.0), error, step=16)
    assert (worst.largest, worst.at) == (1e9, 3)


def test_a_result_without_rows_is_one_element():
    scores = Scores(Scale(ADDED), ())
    scores.take(0, np.array([1.0]), np.array([0.25]))
    assert (scores.largest, scores.count, scores.wrong()) == (2.0, 1, ("", ""))


@each(
    ("steps", "count", "limit"),
    [
        (BOUND, 1000, 1.02),
        (Steps("bound", function=0.125, block=True), 1, 1.1),
        (ADDED, 1, 3.5),
        (ADDED, 22, 3.5),
        (ADDED, 23, 1 + math.sqrt(2 * math.log(23))),
        (ADDED, 4096, 1 + math.sqrt(2 * math.log(4096))),
    ],
)
def test_limits_of_the_largest(steps, count, limit):
    scores = scored(steps, np.ones(count), np.zeros(count))
    assert scores.limit == pytest.approx(limit)
    scores.largest = limit
    assert scores.wrong()[0] != "largest"
    scores.largest = limit * 1.0001
    assert scores.wrong() == ("largest", "1 times as much as rounding allows")


def question(steps, count, slope=0.0, offset=0.0):
    """The question that an error fails which is `slope` of the golden, and `offset` of the scale beside it."""
    golden = np.where(np.arange(count) % 2, 1.0, -1.0)
    size = steps.function + steps.cuts + max(steps.packed, steps.declared) + steps.declared
    return scored(steps, golden, slope * golden + offset * size).wrong()[0]


def test_a_mean_error_is_asked_for_from_64_elements_on():
    """The chance of 4 deviations, N elements being sqrt(N) independent ones: 4 N^0.25 / sqrt(N) of the scale."""
    assert question(ADDED, 64, offset=1.42) == "systematic"
    assert question(ADDED, 64, offset=1.41) == ""
    assert question(ADDED, 62, offset=1.45) == ""
    assert question(ADDED, 256, offset=1.0) == ""  # the limit itself
    assert question(ADDED, 4096, offset=0.51) == "systematic"
    assert question(ADDED, 4096, offset=-0.51) == "systematic"
    assert question(ADDED, 4096, offset=0.499) == ""
    assert question(ADDED, 4096, slope=0.499 / 8) == ""
    assert question(ADDED, 4096, slope=0.501 / 8) == "systematic"
    assert question(ADDED, 4096, slope=-0.501 / 8) == "systematic"
    assert question(BOUND, 4096, slope=1 / 8) == ""
    assert question(BOUND, 4096, slope=1.03 / 8) == "largest"


def test_a_part_may_be_off_by_its_function_above_and_twice_that_below():
    """What a part loses is both its loss and its chance, and the packer's unit comes on top."""
    for slope, asked in ((0.5, ""), (0.51, "systematic"), (-1.0, ""), (-1.01, "systematic")):
        golden = np.where(np.arange(64) % 2, 1.0, -1.0)
        assert scored(Steps("part", function=0.5), golden, slope * golden).wrong()[0] == asked


def test_ties_and_cuts_are_no_systematic_error():
    """A packer lifts ties by 0.8 of its unit; truncation takes what is cut, and a quarter of the packer's unit."""
    packed = Steps("bound", function=1.0, packed=2.0**-8, packer=True)
    chance, unit = 4 * 4096**-0.25, 2.0**-8
    size = 1 + unit
    for slope, expected in ((0.8 * unit, ""), (-0.25 * unit, "")):
        assert question(packed, 4096, slope=slope) == expected
    assert question(packed, 4096, slope=(0.8 * unit + chance * size) * 1.01) == "systematic"
    assert question(packed, 4096, slope=(0.8 * unit + chance * size) * 0.99) == ""
    assert question(packed, 4096, slope=-(0.25 * unit + chance * size) * 1.01) == "systematic"
    assert question(packed, 4096, slope=-(0.25 * unit + chance * size) * 0.99) == ""


def test_an_expected_loss_is_no_systematic_error():
    """Below, what is cut, a quarter of the packer's unit and, of blocks, twice what storing costs; above, ties."""
    for steps, lost in (
        (Steps("bound", function=1.0, packed=0.25), 0.0625),
        (Steps("bound", function=1.0, packed=0.125, declared=0.25), 0.0625),
        (Steps("bound", function=1.0, packed=0.25, cut=(0.25, 0.125)), 0.0625 + 0.375),
        (Steps("bound", function=1.0, packed=0.25, cut=(0.25, 0.0), stored=0.125, block=True), 0.0625 + 0.25 + 0.25),
        (Steps("bound", function=1.0, packed=0.25, declared=0.25, short=0.25), 0.0625 + 0.25),
        (Steps("bound", function=1.0, packed=0.25, block=True, short=0.125), 0.0625 + 0.125),
    ):
        steps = replace(steps, packer=True)
        size = steps.function + steps.cuts + max(steps.packed, steps.declared) + steps.declared
        chance = 0.5 * size  # of 4,096 elements
        for limit in (-lost - chance, 0.8 * 0.25 + chance):
            assert question(steps, 4096, slope=0.99 * limit) == ""
            assert question(steps, 4096, slope=1.01 * limit) == "systematic"


def mean(steps, golden, error, unrounded=None, ties=False):
    """The question of a mean that the whole result fails, at once or in chunks."""
    said = set()
    for step in (golden.size, 128):
        scores = Scores(Scale(steps, unrounded=unrounded), golden.shape)
        for start, end in chunks(golden.size, scores.columns, step):
            scores.take(start, golden[start:end], error[start:end].copy())
        said.add(scores.wrong(ties=ties)[0])
    (question,) = said
    return question


HALF = 2.0**-8
ROUNDED = Steps("bound", packed=HALF, declared=HALF, packer=True)


def test_rounding_ops_have_their_own_mean_error():
    """Half of the elements one unit too large: 6 deviations of what they are themselves, from 72 such elements on."""
    golden = np.linspace(1.0, 1.99, 512)
    up = np.where(np.arange(512) % 2, HALF * golden, 0.0)
    either = up * np.where(np.arange(512) % 4 < 2, 1, -1)
    for steps in (ROUNDED, replace(ROUNDED, packer=False), replace(ROUNDED, error_model="sum")):
        assert mean(steps, golden, up) == mean(steps, golden, -up) == "systematic"
        assert mean(steps, golden, either) == ""
        few = np.where(np.arange(512) < 2 * 35, up, 0.0)
        assert mean(steps, golden, few) == "", "35 of one direction are chance"
    assert mean(ROUNDED, golden, up, ties=True) == "", "where all may have been ties"
    assert mean(replace(ROUNDED, stored=HALF), golden, up) == "", "an operand's loss is shared"
    assert mean(replace(ROUNDED, cut=(0.01, 0.0)), golden, -up) == ""
    assert mean(replace(ROUNDED, short=HALF), golden, -up) == "", "what is stored is cut"


def test_ties_go_either_way_and_equals_count_once():
    golden = np.linspace(1.0, 1.99, 512)
    up = np.where(np.arange(512) % 2, HALF * golden, 0.0)
    ones, none = np.ones(512), np.zeros(512, bool)
    assert mean(ROUNDED, golden, up, Unrounded(none, ones)) == "systematic"
    assert mean(ROUNDED, golden, up, Unrounded(up > 0, ones)) == ""
    assert mean(ROUNDED, golden, 4 * up, Unrounded(up > 0, ones)) == "largest", "a tie has two neighbours"
    assert mean(ROUNDED, golden, up, Unrounded(none, 16 * ones)) == "", "32 different elements"


def test_equals_are_counted_where_a_mean_is_off_and_nowhere_else(monkeypatch):
    golden = np.linspace(1.0, 1.99, 512)
    off = golden + np.where(np.arange(512) % 2, HALF * golden, 0.0)
    judged = partial(check_unrounded, golden, row=tolerance(HOST, "eltwise", "bf16"), scale=Scale(ROUNDED))
    known, others = (Unrounded(None, 1, values=np.arange(512.0) // each) for each in (16, 1))
    assert judged(off, unrounded=known).passed, "32 different elements"
    assert judged(off, unrounded=others).question == "systematic"
    monkeypatch.setattr(unrounded, "_repeats", lambda values: pytest.fail("equals were counted"))
    assert judged(golden, unrounded=known).passed


def test_ties_are_found_before_rounding():
    wide = np.float32(
        [1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-7, -5 - 2**-6, 1 + 2**-8 + 2**-13, 0.0, 1e-39, np.inf, 1.0]
    )
    of = Unrounded.of(wide.reshape(2, 5), np.dtype(ml_dtypes.bfloat16)).counted()
    assert of.ties.tolist() == [False, True, True, False, True, False, False, False, False, False]
    assert of.repeats.tolist() == [2, 1, 1, 1, 1, 1, 1, 1, 1, 2]
    assert Unrounded.of(np.float32([1 + 2**-11, 1 + 2**-8]), np.dtype(np.float16)).ties.tolist() == [True, False]


def test_a_result_that_is_cut_is_a_unit_off_what_was_not_rounded_itself():
    for steps, result in (
        (Steps("bound", packed=0.25), 0.25),
        (Steps("bound", packed=0.25, short=0.25), 0.5),
        (Steps("bound", packed=0.25, declared=0.25, short=0.25), 0.5),  # neighbours of one format
        (Steps("bound", packed=0.25, declared=0.125, short=0.25), 0.625),
        (Steps("bound", packed=0.125, declared=0.25, short=0.125), 0.5),
    ):
        assert steps.result == result
        assert scale(steps).tolist() == (result * SIZE).tolist()
    block = Steps("bound", packed=0.25, short=0.25, block=True)
    assert scale(block, golden=np.ones((2, 16))).tolist() == np.full((2, 16), 0.25).tolist()


def test_a_mean_of_too_few_different_values_is_not_asked_for():
    steps = Steps("bound", function=1.0, packed=0.25)
    golden = np.where(np.arange(4096) % 2, 1.0, -1.0)
    scores = scored(steps, golden, -0.9 * golden)
    assert scores.wrong()[0] == scores.wrong(lambda: True)[0] == "systematic"
    assert scores.wrong(lambda: False) == ("", "")
    assert scored(steps, golden, 2 * golden).wrong(lambda: False)[0] == "largest"


def test_sums_are_in_units_of_the_scale():
    """The scale is an eighth of the golden's size; where both are zero there is neither an error nor a direction."""
    scores = scored(BOUND, [1.0, -2.0, 0.0, 4.0], [0.0625, 0.125, 0.0, -0.125])
    assert (scores.count, scores.largest, scores.at) == (4, 0.5, 0)
    assert (scores.total, scores.along) == (0.5 + 0.5 - 0.25, 4 - 4 - 2)
    assert (scores.golden_total, scores.golden_squares) == (8.0, 192.0)


def test_a_place_that_is_the_whole_result_has_nothing_elsewhere():
    golden, signs = np.ones((1, 16)), np.where(np.arange(16) % 2, 1.0, -1.0)
    said = "face row (batch 0, row 0, block 0): expected a mean square of at most 3.83, got 4 (0 elsewhere)"
    assert scored(ADDED, golden, 2 * 0.125 * signs).wrong() == ("placed", said)


def test_a_place_may_have_just_as_much_as_chance_allows():
    """A tile of 32 elements: 1 + 8 sqrt(2 / 32) is 3, the mean of 24 elements at 4 and 8 at zero."""
    signs = np.where(np.arange(32) % 2, 0.125, -0.125)
    z = np.where(np.arange(32) % 4 == 0, 0.0, 2.0)
    assert scored(ADDED, np.ones(32), z * signs).wrong() == ("", "")
    z[4] = 0.25
    assert scored(ADDED, np.ones(32), z * signs).wrong()[1].startswith("tile (batch 0, row 0, column 0)")


def test_a_place_that_is_worse_than_chance_is_named():
    """1 + 8 sqrt(2 / n): of a face row of 16 elements 3.83, of the last row of 128 it is 2."""
    golden = np.where(np.arange(64 * 128).reshape(64, 128) % 2, 1.0, -1.0)
    signs = np.where(np.arange(64 * 128).reshape(64, 128) // 2 % 2, 1.0, -1.0)

    def placed(where, z, steps=ADDED, rest=0.1):
        error = np.full(golden.shape, rest)
        error[where] = z
        return scored(steps, golden, error * signs * 0.125).wrong()

    assert placed((5, slice(16, 32)), 1.95) == ("", "")
    assert placed((5, slice(16, 32)), 1.97) == (
        "placed",
        "face row (batch 0, row 5, block 1): expected a mean square of at most 3.83, got 3.88 (0.01 elsewhere)",
    )
    assert placed((63, slice(None)), 1.41) == ("", "")
    assert placed((63, slice(None)), 1.42)[1].startswith("last row (batch 0): expected a mean square of at most 2,")
    assert placed((slice(None), 127), 1.55) == ("", "")
    assert placed((slice(None), 127), 1.56)[1].startswith(
        "last column (batch 0): expected a mean square of at most 2.4"
    )
    assert placed((slice(16, 32), slice(32, 48)), 1.31)[1].startswith("face (batch 0, row 1, column 2)")
    assert placed((slice(32, 64), slice(0, 32)), 1.17)[1].startswith("tile (batch 0, row 1, column 0)")
    assert placed((slice(32, 64), slice(0, 32)), 1.15) == ("", "")
    shared = Steps("sum", function=0.125, cut=(1e-12, 0.0))  # n elements with sqrt(n) independent errors
    assert placed((slice(16, 32), slice(32, 48)), 1.95, shared) == ("", "")
    assert placed((slice(16, 32), slice(32, 48)), 1.97, shared)[1].startswith(
        "face (batch 0, row 1, column 2): expected a mean square of at most 3.83"
    )
    assert placed((5, slice(16, 32)), 2.57, shared) == ("", "")
    assert placed((5, slice(16, 32)), 2.59, shared)[0] == "placed"
    block = Steps("sum", function=0.125, block=True)
    assert placed((5, slice(16, 32)), 2.15, block) == ("", "")
    assert placed((5, slice(16, 32)), 2.16, block)[0] == "placed"
    assert placed((5, slice(16, 32)), 1.02, BOUND) == ("", "")


@each(
    ("index", "shape", "name"),
    [
        ((1, 37, 49), (2, 40, 50), "tile (1, 1, 1), face 1, row 5"),
        ((1, 2, 20, 30), (3, 4, 40, 50), "tile (6, 0, 0), face 3, row 4"),
        ((16, 32), (40, 50), "tile (0, 0, 1), face 2, row 0"),
        ((49,), (50,), "tile (0, 0, 1), face 1, row 0"),
        ((), (), "tile (0, 0, 0), face 0, row 0"),
    ],
)
def test_an_element_lies_in_a_row_of_a_face_of_a_tile(index, shape, name):
    flat = int(np.ravel_multi_index(index, shape)) if shape else 0
    assert (index_of(flat, shape), name_of(flat, shape)) == (index, name)


def test_a_batch_entry_is_a_place_too():
    """1 + 8 sqrt(2 / 4096) of its mean square; the other entry's is told beside it."""
    golden = np.where(np.arange(2 * 4096).reshape(2, 64, 64) % 2, 1.0, -1.0)
    signs = np.where(np.arange(2 * 4096).reshape(2, 64, 64) // 2 % 2, 0.125, -0.125)
    for z, asked in ((1.08, ""), (1.09, "placed")):
        error = np.stack([np.full((64, 64), 0.5), np.full((64, 64), z)]) * signs
        question, said = scored(ADDED, golden, error).wrong()
        assert question == asked
    assert said == "batch (entry 1): expected a mean square of at most 1.18, got 1.19 (0.25 elsewhere)"


@each(
    ("shape", "structures"),
    [
        ((), {"face row": [1], "face": [1], "tile": [1]}),
        ((20,), {"face row": [16, 4], "face": [16, 4], "tile": [20], "last column": [1]}),
        ((1, 2), {"face row": [2], "face": [2], "tile": [2], "last column": [1]}),
        ((2, 1), {"face row": [1, 1], "face": [2], "tile": [2], "last row": [1]}),
        ((2, 1, 1), {"face row": [1, 1], "face": [1, 1], "tile": [1, 1], "batch": [1, 1]}),
        (
            (1, 34, 33),
            {
                "face row": [16, 16, 1] * 34,
                "face": [256, 256, 16] * 2 + [32, 32, 2],
                "tile": [1024, 32, 64, 2],
                "last row": [33],
                "last column": [34],
            },
        ),
    ],
)
def test_structures_and_their_numbers_of_elements(shape, structures):
    """Of z that is 1 everywhere each structure sums to its number of elements."""
    ones = np.ones(shape or (1,)).reshape(-1, shape[-1] if shape else 1)
    face_rows = np.add.reduceat(ones, np.arange(0, ones.shape[1], 16), axis=1)
    tiles = list(groups(face_rows, ones[:, -1], shape))
    assert {group.kind: group.counts.ravel().tolist() for group in tiles} == structures
    assert {group.kind: group.sums.ravel().tolist() for group in tiles} == structures


def test_a_block_is_16_values_of_a_row():
    falling = np.arange(64.0, 0.0, -1).reshape(2, 32)
    assert blocks_of(falling).tolist() == [[64.0] * 16 + [48.0] * 16, [32.0] * 16 + [16.0] * 16]
    assert blocks_of(falling[:, :17]).tolist() == [[64.0] * 16 + [48.0], [32.0] * 16 + [16.0]]
    assert blocks_of(np.eye(16)).tolist() == np.ones((16, 16)).tolist()
    for shape in ((0,), (3, 0), (0, 16), (0, 20)):
        assert blocks_of(np.zeros(shape)).shape == shape
    assert blocks_of(np.array(3.0)) == 3.0


@each(
    ("size", "columns", "most", "expected"),
    [
        (12, 4, 8, [(0, 8), (8, 12)]),
        (12, 4, 7, [(0, 4), (4, 8), (8, 12)]),
        (12, 4, 4, [(0, 4), (4, 8), (8, 12)]),
        (12, 12, 12, [(0, 12)]),
        (80, 40, 39, [(0, 32), (32, 40), (40, 72), (72, 80)]),
        (40, 40, 16, [(0, 16), (16, 32), (32, 40)]),
    ],
)
def test_chunks_are_whole_rows_or_parts_of_one(size, columns, most, expected):
    assert chunks(size, columns, most) == expected
