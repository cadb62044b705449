"""What a backend did to its inputs, found bit by bit: copies and digests say the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.verdict import overwritten_inputs
from opscope.harness.verdict.overwritten_inputs import InputSnapshot


@pytest.mark.parametrize("copied", [1 << 20, 0])
def test_copies_and_digests_notice_a_changed_bit(monkeypatch, copied):
    monkeypatch.setattr(overwritten_inputs, "COPIED", copied)
    inputs = [
        np.array([np.nan, -0.0, 1.0], np.float32),
        np.ones((2, 3), ml_dtypes.bfloat16),
        np.array(True),
        np.zeros((0, 4), np.int8),
    ]
    before = InputSnapshot(inputs)
    assert before.overwritten(inputs) == ()
    assert before.overwritten([array.copy() for array in inputs]) == ()
    inputs[0][1] = 0.0  # equal as a number, another bit
    assert before.overwritten(inputs) == (0,)
    inputs[2][...] = False
    assert before.overwritten(inputs) == (0, 2)


def test_inputs_are_copied_up_to_a_size_in_all(monkeypatch):
    inputs = [np.zeros(3, np.int8), np.zeros(5, np.int8)]
    for most, kept in ((8, np.ndarray), (7, bytes)):
        monkeypatch.setattr(overwritten_inputs, "COPIED", most)
        assert {type(each) for each in InputSnapshot(inputs)._before} == {kept}
    monkeypatch.undo()
    monkeypatch.setattr(overwritten_inputs, "_bytes", lambda array: np.zeros(1))
    monkeypatch.setattr(overwritten_inputs, "_digest", lambda array: b"")
    for size, kept in ((64 << 20, np.ndarray), ((64 << 20) + 1, bytes)):  # 64 MiB
        assert type(InputSnapshot([np.broadcast_to(np.int8(0), size)])._before[0]) is kept


def test_a_view_that_is_not_contiguous_counts_by_its_elements():
    whole = np.arange(12).reshape(3, 4)
    before = InputSnapshot([whole.T])
    assert before.overwritten([whole.T]) == ()
    whole[1, 1] = -1
    assert before.overwritten([whole.T]) == (0,)
