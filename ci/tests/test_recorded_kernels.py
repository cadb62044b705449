"""Products, norms, softmax, sums, functions, conversions and convolutions have the bits of ttnn's own kernels.

`recorded_kernels.npz` holds what ttnn 0.81.1 gave on ttsim 1.10.0 (SFPLE and SFPGT allowed to read all registers, slow
dispatch, no SFPLOADMACRO) for operands that `operands` makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ci.benchmarks.real_kernels import kernel_jobs, report
from opscope.compiler.target.rounding import host_rounded, to_mantissa

RECORDED = Path(__file__).with_name("recorded_kernels.npz")
HIFI4_WIDE = {"fidelity": "HiFi4", "fp32_dest_acc": True}
HIFI4_NARROW = {"fidelity": "HiFi4", "fp32_dest_acc": False}
IN_L1 = {**HIFI4_WIDE, "packer_l1_acc": True}
SILU = {"activation": "silu"}
SMALL = {"epsilon": 1e-5}

Part = tuple[tuple[int, ...], float, float]
"""Shape, spread and middle of an operand."""


def product(m: int, k: int, n: int) -> tuple[Part, ...]:
    return ((m, k), 1, 0), ((k, n), 1, 0), ((1, n), 1, 0)


NORM: tuple[Part, ...] = ((32, 64), 1, 0), ((1, 64), 1, 1), ((1, 64), 1, 0)


def convolution(channels: int, side: int) -> tuple[Part, ...]:
    return ((1, 8, 8, channels), 1, 0), ((side, side, channels, 32), 1, 0), ((1, 1, 1, 32), 1, 0)


def one(*shape: int) -> tuple[Part, ...]:
    return ((shape, 4, 0),)


def two(*shape: int) -> tuple[Part, ...]:
    return (shape, 3, 0), (shape, 1, 0)


ONE = (1, 3, 1, 1)
BATCH: tuple[Part, ...] = ((1, 3, 16, 16), 1, 0), (ONE, 1, 0), (ONE, 0.25, 1), (ONE, 1, 1), (ONE, 1, 0)
JOBS: tuple[tuple[str, str, str, dict[str, Any], tuple[Part, ...]], ...] = (
    ("linear_32x64x32_bf16_default", "linear", "bf16", {}, product(32, 64, 32)),
    ("linear_32x64x32_bf16_HiFi4_fp32", "linear", "bf16", HIFI4_WIDE, product(32, 64, 32)),
    ("linear_32x64x32_f32_default", "linear", "f32", {}, product(32, 64, 32)),
    ("linear_silu_32x64x32_bf16_default", "linear", "bf16", SILU, product(32, 64, 32)),
    ("linear_silu_32x64x32_bf16_HiFi4_fp32", "linear", "bf16", SILU | HIFI4_WIDE, product(32, 64, 32)),
    ("linear_32x96x32_bf16_default", "linear", "bf16", {}, product(32, 96, 32)),
    ("linear_32x96x32_f32_HiFi4_fp32_l1", "linear", "f32", IN_L1, product(32, 96, 32)),
    ("matmul_32x96x32_f32_default", "matmul", "f32", {}, product(32, 96, 32)),
    ("matmul_64x256x64_bf16_default", "matmul", "bf16", {}, product(64, 256, 64)),
    ("linear_64x256x64_bf16_default", "linear", "bf16", {}, product(64, 256, 64)),
    ("layer_norm_32x64_bf16_default", "layer_norm", "bf16", SMALL, NORM),
    ("layer_norm_32x64_f32_default", "layer_norm", "f32", SMALL, NORM),
    ("rms_norm_32x64_bf16_HiFi4_d16", "rms_norm", "bf16", SMALL | HIFI4_NARROW, NORM),
    ("softmax_32x64_bf16_HiFi4_d16", "softmax", "bf16", HIFI4_NARROW, NORM[:1]),
    ("conv2d_1x1_bf16_default", "conv2d", "bf16", {}, convolution(32, 1)),
    ("conv2d_1x1_f32_HiFi4_fp32", "conv2d", "f32", HIFI4_WIDE, convolution(32, 1)),
    ("batch_norm_bf16_default", "batch_norm_inference", "bf16", SMALL, BATCH),
    ("batch_norm_bf16_HiFi4_d16", "batch_norm_inference", "bf16", SMALL | HIFI4_NARROW, BATCH),
    ("batch_norm_f32_default", "batch_norm_inference", "f32", SMALL, BATCH),
    ("fused_silu_32x64x32_bf16_HiFi4_fp32_l1", "linear", "bf16", SILU | IN_L1, product(32, 64, 32)),
    ("conv2d_3x3_bf16_HiFi4_fp32", "conv2d", "bf16", HIFI4_WIDE, convolution(3, 3)),
    ("conv2d_3x3_bf16_default", "conv2d", "bf16", {}, convolution(32, 3)),
    ("conv2d_3x3_f32_HiFi4_fp32", "conv2d", "f32", HIFI4_WIDE, convolution(16, 3)),
    ("conv2d_64_channels_bf16_HiFi4_fp32", "conv2d", "bf16", HIFI4_WIDE, convolution(64, 3)),
    ("conv2d_96_channels_f32_default", "conv2d", "f32", {}, convolution(96, 3)),
    ("matmul_32x160x32_bfp8_HiFi4_d16", "matmul", "bfp8", HIFI4_NARROW, product(32, 160, 32)),
    ("matmul_batch_bfp8_HiFi4_d16", "matmul", "bfp8", HIFI4_NARROW, (((2, 64, 64), 1, 0), ((2, 64, 64), 1, 0))),
    ("matmul_turned_bfp8_default", "matmul", "bfp8", {"transpose_a": True}, (((64, 40), 1, 0), ((64, 33), 1, 0))),
    ("matmul_32x70x32_f32_HiFi4_d16", "matmul", "f32", HIFI4_NARROW, product(32, 70, 32)),
    ("linear_32x64x50_bfp8_default", "linear", "bfp8", {}, product(32, 64, 50)),
    ("linear_32x160x32_bfp8_HiFi4_d16", "linear", "bfp8", HIFI4_NARROW, product(32, 160, 32)),
    (
        "linear_gelu_32x64x32_bfp8_HiFi4_fp32",
        "linear",
        "bfp8",
        HIFI4_WIDE | {"activation": "gelu"},
        product(32, 64, 32),
    ),
    ("layer_norm_32x64_bfp8_default", "layer_norm", "bfp8", SMALL, NORM),
    ("softmax_33x50_bfp8_default", "softmax", "bfp8", {}, one(33, 50)),
    ("softmax_33x50_f32_unstable", "softmax", "f32", {"numeric_stable": False}, one(33, 50)),
    ("softmax_of_columns_bf16_default", "softmax", "bf16", {"dim": -2}, one(50, 40)),
    ("softmax_of_columns_f32_default", "softmax", "f32", {"dim": -2}, one(50, 40)),
    ("softmax_of_tiles_f32_default", "softmax", "f32", {"dim": 1}, one(1, 3, 33, 20)),
    ("sum_of_both_f32_default", "sum", "f32", {"dim": [-2, -1]}, one(2, 3, 33, 65)),
    ("sum_37x75_f32_HiFi4_d16", "sum", "f32", {"dim": -1} | HIFI4_NARROW, one(37, 75)),
    ("cbrt_f32", "cbrt", "f32", {}, one(32, 33)),
    ("erfinv_f32", "erfinv", "f32", {}, (((32, 33), 0.6, 0),)),
    ("hardsigmoid_f32", "hardsigmoid", "f32", {}, one(32, 33)),
    ("square_bf16", "square", "bf16", {}, one(32, 33)),
    ("leaky_relu_bf16", "leaky_relu", "bf16", {"scalars": [0.01]}, one(32, 33)),
    *(
        (f"pow_{power}_{form}", "pow_scalar", form, {"scalars": [power]}, (((32, 33), 1, 1.5),))
        for power in (3, 1.7, -1)
        for form in ("bf16", "f32")
    ),
    *((f"pow_{form}", "pow_tensor", form, {}, two(32, 33)) for form in ("bf16", "f32")),
    *((f"atan2_{form}", "atan2", form, {}, two(32, 33)) for form in ("bf16", "f32")),
    ("cosh_bfp8", "cosh", "bfp8", {}, one(32, 33)),
    ("multiply_bfp8", "multiply", "bfp8", {}, two(32, 33)),
    ("add_i32", "add", "i32", {}, (((32, 33), 2**30, 0), ((32, 33), 2**29, 0))),
    *(
        (f"typecast_{form}_to_{to}", "typecast", form, {"to": to}, (((32, 33), spread, 0),))
        for form, to, spread in (
            ("f32", "u8", 400),
            ("f32", "u16", 70000),
            ("f32", "u32", 3e9),
            ("i32", "bf16", 2**30),
            ("i32", "bfp8", 2**30),
            ("i32", "u16", 2**17),
        )
    ),
    ("layer_norm_long_f32_default", "layer_norm", "f32", SMALL, tuple(((1, 5120), 1, base) for base in (0, 1, 0))),
)
UNBIASED = ("matmul", "conv2d_3x3_f32", "conv2d_96")
"""Beginnings of the names of jobs that leave out the bias."""


def operands(chance: np.random.RandomState, form: str, parts: tuple[Part, ...]) -> Iterator[np.ndarray]:
    """Patterns of sums of four random numbers, which are the same everywhere."""
    for shape, spread, middle in parts:
        values = (middle + spread * (chance.random_sample((4, *shape)).sum(0) - 2)).astype(np.float32)
        if form == "bf16":
            yield (to_mantissa(values, 7, "even").view(np.uint32) >> 16).astype(np.uint16)
        elif form == "bfp8":
            yield host_rounded(values, "Bfp8_b").view(np.uint32)
        else:
            yield values.astype(np.int32).view(np.uint32) if form == "i32" else values.view(np.uint32)


def test_they_have_the_recorded_bits(tmp_path: Path) -> None:
    chance, inputs, rows = np.random.RandomState(40), {}, []
    for job, op, form, arguments, parts in JOBS:
        made = {f"{job}_{number}": x for number, x in enumerate(operands(chance, form, parts))}
        taken = list(made)[:2] if job.startswith(UNBIASED) else list(made)
        inputs |= made
        row = {"arch": "blackhole", "job": job, "op": op, "args": arguments, "in_format": form, "encoding": "bits"}
        row |= {"out_format": arguments.get("to", form), "file": RECORDED.name, "out": job}
        rows.append(row | {"inputs": taken, "shapes": [made[name].shape for name in taken]})
    np.savez(tmp_path / "inputs.npz", **inputs)
    (tmp_path / RECORDED.name).write_bytes(RECORDED.read_bytes())
    (tmp_path / "index.json").write_text(json.dumps({"results": rows}))
    jobs, without = kernel_jobs(tmp_path)
    assert not without
    document = report(jobs, without, exact_order=True)
    assert {job["job"]: job["equal"] for job in document["jobs"] if job["equal"] < 1} == {}
    fast = {job["job"] for job in report(jobs, without, exact_order=False)["jobs"] if job["equal"] < 1}
    assert len(fast) > len(JOBS) // 2  # the order is what makes them the same
