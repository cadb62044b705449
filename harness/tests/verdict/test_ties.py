"""Unstable sorts whose equal keys' payloads come in another order, and what is none of that."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import HOST, Target
from opscope.harness.verdict.ties import excused

CARD = Target("sim-n150", None, "HiFi4", matrix_format="Tf32")

KEYS = np.array([[1, 1, 2, 3], [4, 5, 5, 5]], np.int32)
PAYLOAD = np.array([[10, 20, 30, 40], [1, 2, 3, 4]], np.float32)
SWAPPED = np.array([[20, 10, 30, 40], [1, 4, 2, 3]], np.float32)
WRONG = ResultCheck(
    passed=False, pcc=0.5, relative_l2=0.5, max_abs=1.0, tolerance="exact", reason="differs", flags=("a",)
)
RIGHT = WRONG.model_copy(update={"passed": True, "reason": "", "flags": ()})


def asked(golden, got, **params):
    checks = [
        RIGHT if g.shape == d.shape and np.array_equal(g, d) else WRONG for g, d in zip(golden, got, strict=False)
    ]
    return [check.passed for check in excused(golden, got, {"dimension": "1 : i64", **params}, checks)]


def test_payloads_of_equal_keys_may_change_places():
    checks = excused([KEYS, PAYLOAD], [KEYS, SWAPPED], {"dimension": "1 : i64"}, [RIGHT, WRONG])
    assert [(check.passed, check.reason, check.flags) for check in checks] == [
        (True, "", ()),
        (True, "", ("a", "ties")),
    ]
    assert asked([KEYS, PAYLOAD], [KEYS, SWAPPED], is_stable="false") == [True, True]
    # Keys in falling order, along the other axis, and without a dimension, which is the last.
    turned = [array[:, ::-1].T.copy() for array in (KEYS, PAYLOAD, SWAPPED)]
    assert asked([turned[0], turned[1]], [turned[0], turned[2]], dimension="0 : i64") == [True, True]
    assert excused([KEYS, PAYLOAD], [KEYS, SWAPPED], {}, [RIGHT, WRONG])[1].passed


@pytest.mark.parametrize(
    ("golden", "got", "params"),
    [
        ([KEYS, PAYLOAD], [KEYS, SWAPPED], {"is_stable": "true"}),
        ([KEYS, PAYLOAD], [KEYS, SWAPPED], {"dimension": "0 : i64"}),
        ([KEYS, PAYLOAD], [KEYS, PAYLOAD[:, ::-1].copy()], {}),
        ([KEYS, PAYLOAD], [KEYS, np.where(PAYLOAD == 20, 21, SWAPPED).astype(np.float32)], {}),
        ([KEYS, PAYLOAD], [KEYS + 1, SWAPPED], {}),
        ([PAYLOAD], [SWAPPED], {}),
        ([KEYS, PAYLOAD], [KEYS, SWAPPED.astype(np.float64)], {}),
        ([KEYS, PAYLOAD], [KEYS, SWAPPED[:1]], {}),
    ],
    ids=["stable", "other axis", "across keys", "a value changed", "keys differ", "no keys", "another type", "a shape"],
)
def test_nothing_else_is_excused(golden, got, params):
    assert not asked(golden, got, **params)[-1]


def test_pairs_stay_together():
    """Two payloads: each place's pair has to be found again, not each payload by itself."""
    other = PAYLOAD + 100
    assert asked([KEYS, PAYLOAD, other], [KEYS, SWAPPED, SWAPPED + 100]) == [True, True, True]
    assert asked([KEYS, PAYLOAD, other], [KEYS, SWAPPED, SWAPPED[:, [1, 0, 2, 3]] + 100]) == [True, False, False]


def test_two_keys_change_together_or_one_by_one():
    """A run of equal keys ends where either of two keys changes."""
    second = np.array([[1, 2, 2, 3], [1, 1, 1, 1]], np.int32)
    assert not asked([KEYS, second, PAYLOAD], [KEYS, second, SWAPPED])[2]
    both = np.array([[1, 1, 2, 3], [1, 1, 1, 1]], np.int32)
    assert asked([KEYS, both, PAYLOAD], [KEYS, both, SWAPPED])[2]


@each(("name", "shape"), [("topk", (2, 3)), ("argmax", (2,))])
def test_who_picks_the_largest_may_pick_any_of_equal_ones_but_none_twice(name, shape):
    """Composites of these names, in bf16, where most values are there more than once."""
    x = np.array([[3, 1, 3, 3, 0, 2], [1, 1, 1, 0, 0, 5]], ml_dtypes.bfloat16)
    values = np.array([[3, 3, 3], [5, 1, 1]], x.dtype)
    right = np.array([[0, 2, 3], [5, 0, 1]], np.int32)
    params = {"name": f'"tenstorrent.{name}"', "composite_attributes": "{dim = 1 : i32, k = 3 : i32}"}
    known = Operands("stablehlo.composite", b"", lambda: [x])

    def judged(got, golden=right):
        golden, got = ([values, golden], [values, got]) if name == "topk" else ([golden[:, 0]], [got[:, 0]])
        for target in (HOST, CARD):
            checks = compare(golden, got, "stablehlo.composite", target, params=params, operands=known)
            yield all(check.passed for check in checks), checks[-1].flags

    another = np.array([[3, 0, 2], [5, 2, 0]], np.int32)
    assert list(judged(right)) == [(True, ())] * 2
    assert list(judged(another)) == [(True, ("ties",))] * 2
    for wrong in ([[1, 0, 2], [5, 2, 0]], [[6, 2, 3], [5, 0, 1]], [[-1, 2, 3], [5, 0, 1]]):
        assert list(judged(np.array(wrong, np.int32))) == [(False, ())] * 2, wrong
    if name == "topk":
        assert list(judged(np.array([[0, 0, 3], [5, 0, 1]], np.int32))) == [(False, ())] * 2  # one place twice
        lie = (1.01 * values.astype(np.float32)).astype(x.dtype)
        for target in (HOST, CARD):
            checks = compare(
                [values, right], [lie, right], "stablehlo.composite", target, params=params, operands=known
            )
            assert not checks[0].passed
