"""What the simulator would take too long, or too much memory, for is not begun."""

from __future__ import annotations

import pytest

from opscope.harness.backends import simulated
from opscope.harness.backends.base import Declined, Job
from opscope.harness.backends.reference import Reference
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

PRODUCT = """func.func @main(%a: tensor<{n}x{n}xf32>, %b: tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32> {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<{n}x{n}xf32>, tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
  return %0 : tensor<{n}x{n}xf32> }}"""
CONVOLUTION = """func.func @main(%a: tensor<8x{n}x{n}x512xf32>, %b: tensor<3x3x512x512xf32>)
    -> tensor<8x{n}x{n}x512xf32> {{
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<8x{n}x{n}x512xf32>, tensor<3x3x512x512xf32>) -> tensor<8x{n}x{n}x512xf32>
  return %0 : tensor<8x{n}x{n}x512xf32> }}"""


@pytest.mark.parametrize(
    ("text", "shape"),
    [(PRODUCT.format(n=15_000), (15_000, 15_000)), (CONVOLUTION.format(n=512), (8, 512, 512, 512))],
    ids=["product", "convolution"],
)
def test_an_op_above_the_size_that_doctor_states_compiles_and_is_not_run(text: str, shape: tuple[int, ...]) -> None:
    backend, result = Reference(), TensorDesc(shape=shape, data_type="float32")
    job = Job("op", text.encode(), [], ResultOptions(), (result,), (), None)
    *compiling, last = backend.stages
    for stage in compiling:
        backend.climb(stage, job)
    assert last is Stage.RUN
    with pytest.raises(Declined, match=r"too large for the simulator: \w+ of \d\.\de\+12 floating") as refused:
        backend.climb(last, job)
    assert simulated.LIMIT in str(refused.value)
    assert simulated.LIMIT in backend.remark()
