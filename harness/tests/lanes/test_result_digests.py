import ml_dtypes
import numpy as np
import pytest

from opscope.harness.lanes.result_digests import of, with_digests
from opscope.harness.record.records import ResultCheck

ZERO = np.zeros((2, 3), np.float32)
CHECK = ResultCheck(passed=True, pcc=1.0, relative_l2=0.0, max_abs=0.0, tolerance="f32")


@pytest.mark.parametrize(
    "other",
    [-ZERO, ZERO.reshape(3, 2), ZERO.astype(np.int32), ZERO.astype(ml_dtypes.bfloat16), ZERO[:, :2], np.float32(0)],
    ids=["sign of zero", "shape", "type", "bfloat16", "fewer", "one number"],
)
def test_a_digest_is_of_type_shape_and_bits(other: np.ndarray) -> None:
    assert of(np.asarray(other)) != of(ZERO)


def test_how_an_array_lies_in_memory_does_not_count() -> None:
    assert of(np.asfortranarray(ZERO)) == of(ZERO) == of(np.zeros((2, 6), np.float32)[:, ::2])


def test_a_result_that_did_not_come_back_has_none() -> None:
    assert [check.digest for check in with_digests([CHECK, CHECK], [ZERO])] == [of(ZERO), ""]
    assert [check.digest for check in with_digests([CHECK], [ZERO, ZERO])] == [of(ZERO)]
