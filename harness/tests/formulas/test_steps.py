"""Bodies of formulas: as StableHLO, and evaluated with steps that are rounded this way and that."""

from __future__ import annotations

import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.formulas import special
from opscope.harness.formulas.attributes import of_composite
from opscope.harness.formulas.formula import moved
from opscope.harness.formulas.nearest import PART, in_parts, off_by
from opscope.harness.formulas.pointwise import POINTWISE
from opscope.harness.formulas.stablehlo_body import composite, composite_name
from opscope.harness.formulas.stepwise import BY_HOST, BY_KERNELS, evaluations
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.split import split_module
from opscope.harness.ulp.swept_op import NO_STEPS

BF16 = np.dtype(ml_dtypes.bfloat16)
JUMPS = {"floor_divide", "mod"}
"""A quotient that is rounded across an integer makes another one."""


def operands(formula, count=512):
    rng = np.random.default_rng(0)
    drawn = [rng.uniform(0.1, 0.9, count).astype(np.float32) for _ in range(POINTWISE[formula].operands[0])]
    return [x + np.float32(1.5 if formula == "acosh_bw" else 0) for x in drawn]


FORMULAS = sorted({*POINTWISE} - NO_STEPS)
QUICK = ("mish", "div_trunc", "isinf", "celu", "hardswish_bw", "digamma", "erf", "erfinv", "lgamma", "sigmoid")
QUICK += ("cos_bw", "rpow", "hypot", "log10", "tan_bw", "logical_or")
"""Formulas whose bodies have each op that any body has; XLA compiles the others in slow tests."""


def text_of(formula, count=512):
    row = POINTWISE[formula]
    return composite(formula, row.steps, dict(row.attributes), (count, "f32"), row.operands[0])


def computes(formula, got):
    """Whether these are the formula's results of its `operands`."""
    row, wide = POINTWISE[formula], [x.astype(np.float64) for x in operands(formula)]
    exact = np.asarray(row.exact(*wide, **row.attributes))
    (size,) = row.sizes(*wide, **row.attributes)
    far = np.abs(got.astype(np.float64) - exact) > 1e-5 * (np.abs(exact) + size)
    return far.mean() <= (0.01 if formula in JUMPS else 0)


def test_the_steps_of_each_formula_compute_it():
    for formula in FORMULAS:
        steps, wide = POINTWISE[formula].steps, [x.astype(np.float64) for x in operands(formula)]
        unrounded = partial(steps, **POINTWISE[formula].attributes)
        ((got,),) = evaluations(unrounded, wide, np.dtype(np.float32), BY_HOST[-1:])
        assert computes(formula, got), formula


def test_each_op_of_a_body_is_in_a_quick_one():
    ops = {formula: {*re.findall(r"\b(?:stablehlo|chlo)\.\w+|\b[A-Z]{2}\b", text_of(formula))} for formula in FORMULAS}
    assert set().union(*ops.values()) == set().union(*(ops[formula] for formula in QUICK))


# quick: the two tests above hold the other formulas' steps, and the ops that these are written with
@pytest.mark.parametrize("formula", [pytest.param(f, marks=[pytest.mark.slow] * (f not in QUICK)) for f in FORMULAS])
def test_a_body_in_stablehlo_computes_the_formula(formula):
    (op,) = split_module(text_of(formula).encode(), "case").ops.values()
    (got,) = compile_module(op.bytecode)(operands(formula))
    assert computes(formula, got)
    assert of_composite(op.op_params)[0] == formula


def test_composites_that_frameworks_know_keep_their_names():
    assert composite_name("gelu") == "tenstorrent.gelu"
    assert composite_name("mish") == "opscope.mish"


def test_steps_that_are_rounded_are_off_as_far_as_a_naive_body_is():
    row = POINTWISE["gelu"]
    x = np.array([-3.2, -4.0, 0.5, 2.0])
    exact = row.exact(x)
    apart = np.max([np.abs(y - exact) for (y,) in evaluations(row.steps, [x], BF16, BY_HOST)], axis=0)
    assert apart[1] >= abs(exact[1])  # 1 + erf is 0 there
    assert (off_by(exact, (exact + apart).astype(BF16))[2:] <= 3).all()


def test_what_numpy_knows_as_one_step_is_rounded_once():
    x = np.array([0.3, 1.7])
    for (y,) in evaluations(special.erf, [x], BF16, BY_KERNELS):
        assert (off_by(special.erf(x), y.astype(BF16)) <= 1).all()


def test_a_step_that_is_no_number_in_one_element_leaves_the_others_as_they_are():
    x = np.array([0.5, 800.0, -1.0, 3.0])

    def steps(x):
        return x * (1 / (1 + np.exp(x)))

    (size, steepness), alone = moved(steps, (x,))[0], [moved(steps, (x[n : n + 1],))[0] for n in range(4)]
    assert np.isfinite(size).all()
    assert size.tolist() == [float(each[0][0]) for each in alone]
    assert steepness.tolist() == [float(each[1][0]) for each in alone]


def test_a_function_part_by_part_has_the_bits_of_the_whole():
    x = np.random.default_rng(0).standard_normal((PART // 4 + 3, 9))
    for of in (special.erf, special.erfc, special.lgamma, lambda x: special.erf_inv(np.tanh(x))):
        (parts,) = in_parts(lambda part, of=of: [of(part)], x)
        assert parts.shape == x.shape
        assert np.array_equal(parts, of(x))
        assert np.isnan(of(np.array(np.nan)))


def test_a_polynomial_has_the_bits_of_numpy():
    x, factors = np.random.default_rng(0).standard_normal(1000), special._MIDDLE[0]
    assert np.array_equal(special.polynomial(factors, x), np.polyval(factors, x))
