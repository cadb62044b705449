"""What a card's steps give of NaN, infinities and denormals by public text is right on a card, and nothing else is."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope import judge
from opscope.harness.backends.reference import Reference
from opscope.harness.prepare.split import split_module
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.ulp.swept_op import named
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import HOST

CARD = Reference().target(ResultOptions(arch="p150"))
BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
NAN = {BF16: (0x7FA0, 0xFFA0), F16: (0x7D00, 0xFD00)}
"""Two NaNs: 1.25 times the highest binade, of either sign."""


def beside_numbers(kind: np.dtype, *special: float) -> np.ndarray:
    """Two NaNs and other special values, then numbers from 0.5 to 2."""
    x = np.random.default_rng(0).uniform(0.5, 2, 1024).astype(kind)
    x[:2] = np.array(NAN[kind], np.uint16).view(kind)
    x[2 : 2 + len(special)] = special
    return x


def right(what: str, x: np.ndarray, *special: float) -> np.ndarray:
    """The right results, but for those of special values."""
    y = judge(what, x, x).golden[0].copy()
    y[: len(special)] = special
    return y


@pytest.mark.parametrize(
    ("what", "kind", "given", "wrong"),
    [
        ("tanh", BF16, (np.inf, -np.inf), (0, 1)),
        ("relu6", BF16, (6, -np.inf), (0, -np.inf)),
        ("log10_bw", BF16, (0, 0), (0, 1)),
        ("tanhshrink", BF16, (2.0**126, -np.inf), (2.0**125, -np.inf)),
        ("sqrt", F16, (286.25, np.inf), (300, np.inf)),
        ("hardsigmoid", F16, (1, 0), (0, 0)),
        ("gtz", F16, (1, 0), (1, 1)),
        ("deg2rad", F16, (1430, -1430), (1430, 1430)),
    ],
    ids=lambda each: str(each),
)
def test_no_number_comes_out_as_its_steps_have_it(what, kind, given, wrong):
    x = beside_numbers(kind)
    verdict = judge(what, x, right(what, x, *given), target=CARD)
    assert verdict, verdict
    assert "documented_tail" in verdict.flags
    assert verdict.documented
    assert not judge(what, x, right(what, x, *given))
    assert not judge(what, x, right(what, x, *wrong), target=CARD)
    assert not judge(what, x, right(what, x, *given) * kind.type(1.25), target=CARD)


@pytest.mark.parametrize(("what", "smallest"), [("log2_bw", 2.0**-126), ("rdiv", 2.0**-130)])
def test_a_step_that_is_a_denormal_is_zero_and_what_follows_from_that_is_right(what, smallest):
    x = beside_numbers(BF16, smallest, -smallest)[2:]
    assert judge(what, x, right(what, x, np.inf, -np.inf), target=CARD)
    for wrong in ((0, 0), (1, -1), (np.nan, -np.inf), (np.inf, 2.0**120)):
        assert not judge(what, x, right(what, x, *wrong), target=CARD)
    assert not judge(what, x, np.where(x == x[5], BF16.type(np.inf), right(what, x, np.inf, -np.inf)), target=CARD)


def test_what_is_documented_excuses_nothing_elsewhere():
    x = beside_numbers(BF16)
    y = right("silu", x, np.inf, -np.inf)
    assert judge("silu", x, y, target=CARD)
    for wrong in (
        np.where(np.arange(1024) > 500, BF16.type(0), y),
        np.where(np.isfinite(y), BF16.type(1.1) * y, y),
        -y,
    ):
        assert not judge("silu", x, wrong, target=CARD)


def in_a_run(what: str, x: np.ndarray, y: np.ndarray, target):
    """The verdict of a run on a result of a composite with its usual steps as body, judged by XLA's golden."""
    (op,) = split_module(named(what).module(x.shape, "bf16"), "m").ops.values()
    operands = Operands(op.op_name, op.bytecode, lambda: [x])
    return compare_op(op, operands.run([x]), [y], target, operands)[0]


def test_a_number_is_right_where_the_usual_steps_end_in_none():
    x = np.linspace(1, 4, 1024).astype(BF16)
    x[:3] = 1e20, 1e30, -1e30
    y = right("gelu_tanh_bw", x)
    assert not np.isfinite(Operands("", named("gelu_tanh_bw").module(x.shape, "bf16"), list).run([x])[0]).all()
    for wrong, passed in ((1, True), (0, False), (2, False)):
        y[:2] = wrong
        assert in_a_run("gelu_tanh_bw", x, y, HOST).passed is passed


def test_small_values_lost_in_a_step_are_no_sign_of_rounded_steps_elsewhere():
    x = np.concatenate([np.linspace(-96, -86, 64), np.linspace(-6, 6, 4032)]).astype(BF16)
    y = right("silu_bw", x)
    lost = np.where(x < -87.5, BF16.type(0), y)
    assert in_a_run("silu_bw", x, lost, CARD).passed
    assert not in_a_run("silu_bw", x, np.where(x < -80, BF16.type(0), y), CARD).passed
