"""The ops whose results are spoiled, by name."""

from __future__ import annotations

import numpy as np

from ci.wrong_numbers.ops import (
    BF16,
    Case,
    Make,
    binary,
    composed,
    convert,
    convolution,
    elementwise,
    fixed,
    moved,
    normal,
    product,
    reduction,
    spread,
    unary,
    with_negative_zeros,
)

ENDS = np.array([0.0, -0.0, 1.0, -1.0, 3e38, 1e-38, np.inf, -np.inf, np.nan, 2.0])


def _pairs(element: type) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of `ENDS`."""
    left, right = (side.ravel().astype(element) for side in np.meshgrid(ENDS, ENDS))
    return left, right


def _integers(low: int, high: int, shape: tuple[int, ...], kind: type, count: int = 1) -> Make:
    return lambda rng: [rng.integers(low, high, shape).astype(kind) for _ in range(count)]


def _quotients(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal((64, 64)).astype(np.float32), rng.uniform(0.5, 4, (64, 64)).astype(np.float32)]


def _halves(rng: np.random.Generator) -> list[np.ndarray]:
    return [(rng.integers(-200, 200, (64, 64)) / 2).astype(np.float32)]


def _slice(element: str, make: Make) -> Case:
    """A slice of 48x40 values."""
    return moved("stablehlo.slice %a0 [8:40, 0:32] : ({x}) -> {y}", (48, 40), (32, 32), element, make)


def _transpose(rows: int, columns: int, make: Make) -> Case:
    """A transpose of a matrix."""
    return moved("stablehlo.transpose %a0, dims = [1, 0] : ({x}) -> {y}", (rows, columns), (columns, rows), "f32", make)


ZEROS = with_negative_zeros((48, 40))

COMPOSED = {
    **dict.fromkeys(("gelu", "gelu_tanh", "silu", "mish", "softplus", "tanhshrink"), ("f32", "bf16")),
    **dict.fromkeys(("elu", "tanh_bw", "gelu_bw", "sigmoid"), ("f32", "bf16")),
    **dict.fromkeys(("selu", "hardswish", "log_sigmoid", "softsign"), ("f32", "bf16", "f16")),
}
"""Formulas whose composites are spoiled, and in which types."""

CASES: dict[str, Case] = {
    **{f"{name} {element}": composed(name, element) for name, elements in COMPOSED.items() for element in elements},
    **{f"dot {e} {n}": product(n, n, n, e) for e in ("bf16", "f32") for n in (64, 128, 256, 512)},
    "dot bf16 1024": product(1024, 1024, 1024, "bf16"),
    "dot f64 128": product(128, 128, 128, "f64"),
    "dot f32 k200": product(64, 200, 64, "f32"),
    "dot bf16 k1000": product(64, 1000, 96, "bf16"),
    **{f"multiply bf16 {n}": binary("multiply", (n, n), "bf16", np.multiply) for n in (64, 100, 128, 256, 300, 1000)},
    "multiply f32 100": binary("multiply", (100, 100), "f32", np.multiply),
    "multiply f64 64": binary("multiply", (64, 64), "f64", np.multiply),
    "multiply bf16 ends": binary("multiply", (100,), "bf16", np.multiply, fixed(*_pairs(BF16))),
    "multiply f32 ends": binary("multiply", (100,), "f32", np.multiply, fixed(*_pairs(np.float32))),
    "maximum f32 ends": binary("maximum", (100,), "f32", np.maximum, fixed(*_pairs(np.float32))),
    "add bf16 128": binary("add", (128, 128), "bf16", np.add),
    "add bf16 256": binary("add", (256, 256), "bf16", np.add),
    "add f32 200": binary("add", (200, 200), "f32", np.add),
    "add f64 64": binary("add", (64, 64), "f64", np.add),
    "subtract bf16 96": binary("subtract", (96, 96), "bf16", np.subtract),
    "divide f32 64": binary("divide", (64, 64), "f32", np.divide, _quotients),
    "divide f64 64": binary("divide", (64, 64), "f64", np.divide),
    "conv bf16": convolution(16, 32, "bf16"),
    "conv f32": convolution(14, 16, "f32"),
    "log f32 near 1": unary("log", spread((64, 64), 0.998, 1.002), (64, 64), "f32", np.log),
    "log f64 near 1": unary("log", spread((64, 64), 0.99, 1.01, "f64"), (64, 64), "f64", np.log),
    "log bf16": unary("log", spread((64, 64), 0.5, 2, "bf16"), (64, 64), "bf16", np.log),
    "log1p f32": unary("log_plus_one", spread((64, 64), -1e-2, 1e-2), (64, 64), "f32", np.log1p),
    "expm1 f32": unary("exponential_minus_one", spread((64, 64), -1e-2, 1e-2), (64, 64), "f32", np.expm1),
    "tanh f32": unary("tanh", spread((64, 64), -1e-2, 1e-2), (64, 64), "f32", np.tanh),
    "tanh bf16 256": unary("tanh", normal((256, 256), element="bf16"), (256, 256), "bf16", np.tanh),
    "sine f32": unary("sine", spread((64, 64), 3.1, 3.18), (64, 64), "f32", np.sin),
    "cosine f32": unary("cosine", spread((64, 64), 1.5, 1.64), (64, 64), "f32", np.cos),
    "exp f32": unary("exponential", spread((64, 64), 50, 80), (64, 64), "f32", np.exp),
    "exp bf16 128": unary("exponential", normal((128, 128), element="bf16"), (128, 128), "bf16", np.exp),
    "exp f64": unary("exponential", normal((64, 64), element="f64"), (64, 64), "f64", np.exp),
    "sqrt f32": unary("sqrt", spread((64, 64), 0.1, 9), (64, 64), "f32", np.sqrt),
    "sqrt f64": unary("sqrt", spread((64, 64), 0.1, 9, "f64"), (64, 64), "f64", np.sqrt),
    "rsqrt f32": unary("rsqrt", spread((64, 64), 0.1, 9), (64, 64), "f32", lambda x: 1 / np.sqrt(x)),
    "logistic f32": unary("logistic", spread((64, 64), -25, -15), (64, 64), "f32", lambda x: 1 / (1 + np.exp(-x))),
    "sum f32 cancel": reduction("add", (128, 10, 32, 4), (0, 1, 2, 3), "f32"),
    "sum f32 100000": reduction("add", (100000,), (0,), "f32"),
    "sum f32 rows": reduction("add", (256, 1000), (1,), "f32", spread((256, 1000), 0, 1)),
    "sum f32 columns": reduction("add", (1024, 64), (0,), "f32"),
    "sum f32 128": reduction("add", (64, 128), (1,), "f32"),
    "sum bf16 rows": reduction("add", (64, 1024), (1,), "bf16"),
    "sum f64 rows": reduction("add", (64, 1024), (1,), "f64"),
    "product f32": reduction("multiply", (64, 32), (1,), "f32", spread((64, 32), 0.8, 1.25)),
    "largest f32": reduction("maximum", (64, 200), (1,), "f32"),
    "negate -0": unary("negate", ZEROS, (48, 40), "f32", np.negative),
    "reshape -0": moved("stablehlo.reshape %a0 : ({x}) -> {y}", (48, 40), (40, 48), "f32", ZEROS),
    "slice bf16 -0": _slice("bf16", with_negative_zeros((48, 40), "bf16")),
    "transpose -0": _transpose(48, 40, ZEROS),
    "concatenate -0": moved(
        "stablehlo.concatenate %a0, %a1, dim = 0 : ({x}, {x}) -> {y}",
        (48, 40),
        (96, 40),
        "f32",
        lambda rng: [ZEROS(rng)[0] for _ in range(2)],
        2,
    ),
    "reverse": moved("stablehlo.reverse %a0, dims = [0] : {x}", (48, 40), (48, 40), "f32", normal((48, 40))),
    "transpose": _transpose(64, 64, normal((64, 64))),
    "slice bf16": _slice("bf16", normal((48, 40), element="bf16")),
    "next_after": elementwise("chlo.next_after", normal((32, 32), (32, 32)), (32, 32), "f32", 2, None),
    "i1 to f16": convert(_integers(0, 2, (64, 64), np.bool_), (64, 64), "i1", "f16"),
    "i32 to f32": convert(_integers(-(2**30), 2**30, (64, 64), np.int32), (64, 64), "i32", "f32"),
    "i8 to bf16": convert(_integers(-128, 128, (64, 64), np.int8), (64, 64), "i8", "bf16"),
    "f32 to bf16": convert(normal((64, 64)), (64, 64), "f32", "bf16"),
    "f32 to f16": convert(normal((64, 64)), (64, 64), "f32", "f16"),
    "f32 to i32": convert(normal((64, 64), scale=100), (64, 64), "f32", "i32"),
    "floor f32": unary("floor", _halves, (64, 64), "f32", np.floor),
    "round even f32": unary("round_nearest_even", _halves, (64, 64), "f32", np.rint),
    "sign f32": unary("sign", normal((64, 64)), (64, 64), "f32", np.sign),
    "add i32": binary("add", (64, 64), "i32", None, _integers(-(2**31), 2**31, (64, 64), np.int32, 2)),
    "divide i32": binary("divide", (64, 64), "i32", None, _integers(1, 1000, (64, 64), np.int32, 2)),
    "remainder f32": binary("remainder", (64, 64), "f32", np.fmod, _quotients),
    "power f32": binary(
        "power",
        (64, 64),
        "f32",
        np.power,
        lambda rng: [rng.uniform(0.5, 4, (64, 64)).astype(np.float32), rng.uniform(-3, 3, (64, 64)).astype(np.float32)],
    ),
}
"""Name -> an op with the operands that it is run on."""
