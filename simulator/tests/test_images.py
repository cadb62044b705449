"""A bfloat16 that the host gave stays 16 bits until a kernel computes with it."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.binary import write
from opscope.compiler.target.program import ConcatParams, EltwiseParams, GatherParams, PermuteParams, TensorDesc
from opscope.simulator.api import Device
from opscope.simulator.images import LARGE, pack
from opscope.simulator.observing import Step
from opscope.simulator.tests.programs import one_kernel, run_kernel

TABLE = np.arange(4000 * 256, dtype=np.uint32).astype(np.uint16).reshape(4000, 256).view(ml_dtypes.bfloat16)
"""Every bit pattern of bfloat16, several times."""
ROWS = np.array([[3999, 7, 0]], np.int32)
PICKED = GatherParams(
    slice_sizes=(1, 256), offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2
)


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint16)


def test_rows_of_a_table_are_picked_without_a_wider_table() -> None:
    run_kernel("gather", PICKED, [TABLE[:8], ROWS % 8], (1, 3, 256), "bf16")  # imports, caches
    tracemalloc.start()
    try:
        got = run_kernel("gather", PICKED, [TABLE, ROWS], (1, 3, 256), "bf16")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(bits(got[0]), bits(TABLE[ROWS[0]]))
    assert peak < TABLE.nbytes


def test_a_transpose_keeps_every_pattern() -> None:
    got = run_kernel("permute", PermuteParams((1, 0)), [TABLE], (256, 4000), "bf16")
    assert np.array_equal(bits(got), bits(TABLE).T)


@pytest.mark.parametrize("data_format", [None, "Bfp8_b"])
def test_computing_takes_numbers(data_format: str | None) -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32).astype(ml_dtypes.bfloat16).reshape(2, 32)
    got = run_kernel("add", EltwiseParams(), [x, x], (2, 32), "bf16", data_format=data_format)
    assert np.allclose(got.astype(np.float32), 2 * x.astype(np.float32), atol=0.1)
    joined = run_kernel("concat", ConcatParams(0), [x, x], (4, 32), "bf16", data_format=data_format)
    assert np.allclose(joined.astype(np.float32), np.concatenate([x, x]).astype(np.float32), atol=0.1)


def test_observers_see_numbers_and_may_store_others() -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32).astype(ml_dtypes.bfloat16).reshape(2, 32)
    binary = one_kernel("concat", ConcatParams(0), [((2, 32), "bf16")] * 2, ((4, 32), "bf16"))
    seen: list[np.ndarray] = []

    def doubled(step: Step) -> None:
        (tensor,) = step.operation.outputs
        if step.operation.kernel == "to_device":
            seen.append(step.image(tensor))
            if len(seen) == 1:
                step.store(tensor, 2 * step.image(tensor))

    (got,) = Device("n150").load(write(binary)).run([x, x], observe=doubled).outputs
    assert [image.dtype for image in seen] == [np.float32] * 2
    assert np.array_equal(seen[1], x.astype(np.float32))
    assert np.array_equal(got.astype(np.float32), np.concatenate([2 * x.astype(np.float32), x.astype(np.float32)]))


def test_other_element_types_of_16_bits_are_no_bfloat16() -> None:
    whole = np.arange(64, dtype=np.uint16).reshape(2, 32)
    assert np.array_equal(run_kernel("permute", PermuteParams((1, 0)), [whole], (32, 2), "ui16"), whole.T)


def test_a_large_result_whose_batch_of_1_has_stride_0_is_packed_once() -> None:
    """NumPy gives a dim of size 1 any stride; such a result is no repeated one."""
    flat = np.arange(LARGE, dtype=np.float32)
    result = np.lib.stride_tricks.as_strided(flat, (1, LARGE), (0, 4))
    desc = TensorDesc((1, LARGE), "f32", "Float32", "tile", "dram")
    assert np.array_equal(pack(result, desc)[0], flat)
