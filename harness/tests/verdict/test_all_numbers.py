"""Composites of 16 bits at all of their numbers: honest steps as XLA and IREE take them are right; lies are not."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.formulas.nearest import rounded
from opscope.harness.formulas.stepwise import NEAREST, evaluations
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.split import split_module
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.ulp import inputs
from opscope.harness.ulp.swept_op import named
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.meaning import of_body
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import HOST, Target

XLA = Target("host", None, "exact", rounds_steps=True)


class Swept:
    """An op on all normal numbers of its type, or one of so many of every exponent."""

    def __init__(self, op: str, element: str, of: int = 1) -> None:
        self.x = inputs.in_rows(inputs.numbers(numpy_dtype(element), 1))[0][:, of - 1 :: of]
        self.module = named(op).module(self.x.shape, element)
        (self.op,) = split_module(self.module, "ulp").ops.values()
        (self.golden,) = compile_module(self.op.bytecode, widen=True)([self.x])

    def by_steps(self, function=None) -> np.ndarray:
        """What each step, the nearest number, gives, constants rounded too; of the op's own body or a function."""
        steps = function or of_body(self.op.bytecode).steps
        ((made,),) = evaluations(steps, [self.x.astype(np.float64)], self.x.dtype, NEAREST[1:])
        return rounded(made, self.x.dtype)

    def check(self, got: np.ndarray, target: Target = XLA):
        operands = Operands(self.op.op_name, self.op.bytecode, lambda: [self.x])
        with np.errstate(over="ignore"):
            got = got.astype(self.x.dtype)
        (check,) = compare_op(self.op, [self.golden], [got], target, operands)
        return check


def test_tiny_results_lean_as_their_constants_do():
    mish = Swept("mish", "bf16", of=4)
    by_steps = mish.by_steps()
    by_steps = np.where(np.abs(by_steps) < ml_dtypes.finfo(ml_dtypes.bfloat16).tiny, 0, by_steps)
    assert mish.check(by_steps).passed  # log 2, rounded once, makes half of all results 0.46 % too small
    wide = by_steps.astype(np.float64)
    assert mish.check(wide * 0.996).question in ("systematic", "largest")


def test_what_overflows_may_do_so_by_as_much_as_steps_are_off():
    selu = Swept("selu", "bf16")
    by_steps, x = selu.by_steps(), selu.x.astype(np.float64)
    assert np.isfinite(by_steps[(x > 0) & np.isinf(rounded(1.0507009873554805 * x, selu.x.dtype))]).any()
    assert selu.check(by_steps).passed
    assert not selu.check(np.where(x > 3e38, np.inf, by_steps)).passed
    assert not selu.check(np.where(np.isinf(by_steps), 1e38, by_steps)).passed
    assert not selu.check(np.where(np.isinf(by_steps), -np.inf, by_steps)).passed


def test_a_step_that_overflows_in_the_ops_own_type_is_as_its_body_has_it():
    slope = Swept("gelu_tanh_bw", "f16", of=16)
    with np.errstate(all="ignore"):
        by_steps = slope.by_steps()
    x = slope.x.astype(np.float64)
    assert np.array_equal(np.isnan(by_steps), np.abs(x) >= 256)  # whose square is Infinity, times 0
    check = slope.check(by_steps)
    assert (check.passed, "body_overflows" in check.flags) == (True, True)
    assert not slope.check(by_steps, HOST).passed
    assert not slope.check(np.where(x > 200, np.nan, by_steps)).passed
    assert not slope.check(np.where(np.isnan(by_steps), np.inf, by_steps)).passed
    tail = (x < -2) & (x > -4)
    assert not slope.check(np.where(tail, 0, by_steps)).passed
    assert "body_overflows" not in slope.check(np.where(np.isnan(by_steps), x > 0, by_steps)).flags


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_a_known_body_may_have_a_function_made_of_several_steps(element):
    rpow = Swept("rpow", element, of=8)
    of_three = float(np.float64(math.log(3)).astype(rpow.x.dtype))
    with np.errstate(all="ignore"):
        by_steps = rpow.by_steps(lambda x: np.exp(x * of_three))
    check = rpow.check(by_steps)
    assert check.passed, check.reason
    right = rounded(named("rpow").exact([rpow.x]), rpow.x.dtype)
    assert rpow.check(right).passed
    half = np.arange(right.size).reshape(right.shape) % 2 == 1
    assert not rpow.check(np.where(half, by_steps, right)).passed
    assert not rpow.check(np.where(rpow.x > 5, by_steps.astype(np.float64) * 1.01, by_steps)).passed
