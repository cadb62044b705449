"""How long the simulator takes for the operations that dominate a run: load, allocate, compute, pack.

`python -m pytest ci/benchmarks/bench_simulator.py` prints the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opscope.compiler.target.binary import write
from opscope.compiler.target.program import (
    Conv2dParams,
    EltwiseParams,
    MatmulParams,
    Params,
    PermuteParams,
    ReduceParams,
)
from opscope.simulator.api import Device
from opscope.simulator.tests.programs import one_kernel

Shape = tuple[int, ...]
STEM = Conv2dParams((2, 2), (3, 3, 3, 3), (1, 1))
SAME = Conv2dParams((1, 1), (1, 1, 1, 1), (1, 1))
CASES: dict[str, tuple[str, Params, list[Shape], Shape]] = {
    "conv 7x7 stem": ("conv2d", STEM, [(1, 224, 224, 3), (7, 7, 3, 64)], (1, 112, 112, 64)),
    "conv 3x3 56x56x64": ("conv2d", SAME, [(1, 56, 56, 64), (3, 3, 64, 64)], (1, 56, 56, 64)),
    "matmul 128x768x3072": ("matmul", MatmulParams(), [(128, 768), (768, 3072)], (128, 3072)),
    "matmul 12x128x64x128": ("matmul", MatmulParams(), [(12, 128, 64), (12, 64, 128)], (12, 128, 128)),
    "add 1x128x768": ("add", EltwiseParams(), [(1, 128, 768)] * 2, (1, 128, 768)),
    "erf 128x3072": ("erf", EltwiseParams(), [(128, 3072)], (128, 3072)),
    "sum 128x768": ("sum", ReduceParams((1,)), [(128, 768)], (128,)),
    "transpose 50257x768": ("permute", PermuteParams((1, 0)), [(50257, 768)], (768, 50257)),
}


@pytest.mark.parametrize("element_type", ["f32", "bf16"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_run_one_kernel(benchmark: Any, name: str, element_type: str) -> None:
    from opscope.compiler.target.formats import host_dtype

    kernel, params, shapes, out = CASES[name]
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s, dtype=np.float32).astype(host_dtype(element_type)) for s in shapes]
    data = write(one_kernel(kernel, params, [(s, element_type) for s in shapes], (out, element_type)))
    result = benchmark.pedantic(lambda: Device().load(data).run(arrays), rounds=5, warmup_rounds=1)
    assert result.outputs[0].shape == out
