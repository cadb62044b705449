"""The tightened limits of Float32 functions, against XLA: right kernels keep them on every range of values."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler import api
from opscope.harness.backends.reference import Reference
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.compare import compare
from opscope.simulator.api import Device

COUNT = 4096
TARGET = Reference().target(ResultOptions(arch="n150"))
UNARY = (
    "abs",
    "cbrt",
    "ceil",
    "cosine",
    "exponential",
    "exponential_minus_one",
    "floor",
    "log",
    "log_plus_one",
    "logistic",
    "negate",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "tan",
    "tanh",
)
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "atan2")
CHLO = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erfc", "erf_inv", "sinh", "tan")
QUICK = ("stablehlo.tanh", "stablehlo.add")
OPS = [
    *((f"stablehlo.{name}", 1) for name in UNARY),
    *((f"stablehlo.{name}", 2) for name in BINARY),
    *((f"chlo.{name}", 1) for name in CHLO),
]


def ranges(arity: int) -> dict[str, list[np.ndarray]]:
    """Seeded operands, by range."""
    rng = np.random.default_rng(0)
    made = {
        "normal": lambda: rng.standard_normal(COUNT),
        "wide": lambda: rng.standard_normal(COUNT) * np.exp(rng.uniform(-20, 20, COUNT)),
        "large": lambda: rng.uniform(-1e4, 1e4, COUNT),
        "small": lambda: rng.standard_normal(COUNT) * 1e-4,
        "unit": lambda: rng.uniform(-1, 1, COUNT),
        "near one": lambda: 1 + rng.standard_normal(COUNT) * 1e-3,
    }
    return {name: [draw().astype(np.float32) for _ in range(arity)] for name, draw in made.items()}


def module(op: str, arity: int) -> bytes:
    kind, names = f"tensor<{COUNT}xf32>", [f"%a{i}" for i in range(arity)]
    text = (
        f"func.func @main({', '.join(f'{n}: {kind}' for n in names)}) -> {kind} {{ "
        f'%0 = "{op}"({", ".join(names)}) : ({", ".join([kind] * arity)}) -> {kind} return %0 : {kind} }}'
    )
    return to_bytecode(load(text, op))


@pytest.mark.parametrize(
    ("op", "arity"), [pytest.param(*each, marks=() if each[0] in QUICK else pytest.mark.slow) for each in OPS]
)
def test_a_right_kernel_keeps_its_bound_and_a_hundred_thousandth_off_does_not(op, arity):
    source = module(op, arity)
    golden_of = compile_module(source, widen=True)
    device = Device("n150").load(api.compile(source, api.load_board("n150")))
    desc = TensorDesc(shape=(COUNT,), data_type="f32")
    noticed = False
    for name, operands in ranges(arity).items():
        golden, got = golden_of(operands), device.run(operands).outputs
        (right,) = compare(golden, got, op, TARGET, outputs=[desc])
        assert right.passed, (name, right)
        (wrong,) = compare(golden, [x * np.float32(1 + 1e-5) for x in got], op, TARGET, outputs=[desc])
        noticed |= not wrong.passed
    assert noticed
