"""A sweep asks every number of a narrow type, every exponent of a wide one, and special values."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.formulas.nearest import precision
from opscope.harness.record.errors import InputError
from opscope.harness.ulp import inputs
from opscope.harness.ulp.sweep import asked
from opscope.harness.ulp.swept_op import TYPES, element_dtype, every, named


@pytest.mark.parametrize("element_type", [name for name in TYPES if name.startswith("f8") or name.endswith("16")])
def test_numbers_and_specials_of_a_narrow_type_are_all_there_are(element_type):
    dtype = element_dtype(element_type)
    (numbers,), (specials,) = inputs.numbers(dtype, 1), inputs.specials(dtype, 1)
    codes = np.concatenate([numbers, specials]).view(f"u{dtype.itemsize}")
    assert np.unique(codes).size == codes.size == 1 << (8 * dtype.itemsize)
    assert np.isfinite(numbers.astype(np.float64)).all()


@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_a_wide_type_is_asked_at_every_exponent_of_float32_and_beside_points(element_type):
    dtype = element_dtype(element_type)
    (numbers,) = inputs.numbers(dtype, 1)
    _, exponents = np.frexp(numbers.astype(np.float64))
    assert set(range(-125, 129)) <= set(exponents.tolist())
    one = np.array([1], dtype)
    near = {np.nextafter(one, dtype.type(2))[0], np.nextafter(one, dtype.type(0))[0]}
    assert near <= set(numbers.tolist())


def test_pairs_are_neighbours_of_like_size_and_any():
    dtype = element_dtype("bf16")
    first, second = (x.astype(np.float64) for x in inputs.numbers(dtype, 2))
    bits, _ = precision(dtype)
    with np.errstate(all="ignore"):
        ratio = np.abs(second / first)
    assert ((ratio > 1 - 4 * 2.0**-bits) & (ratio < 1 + 4 * 2.0**-bits) & (ratio != 1)).mean() > 0.1
    assert ((ratio > 2.0 ** -(bits + 1)) & (ratio < 2.0 ** (bits + 2))).mean() > 0.6
    assert (ratio > 1e6).any()
    pairs = inputs.specials(dtype, 2)
    assert pairs[0].size == np.unique(np.stack([x.view(np.uint16) for x in pairs]), axis=1).shape[1] > 1000


def test_what_has_no_result_is_a_special_value():
    numbers, specials = asked(named("log"), "bf16")
    assert (numbers.inputs[0].astype(np.float64) > 0).all()
    assert numbers.exact.size + specials.exact.size == 65536
    assert np.isfinite(numbers.exact).all()
    (between,) = asked(named("log"), "bf16", (1.0, 2.0))
    assert between.exact.size == 129


def test_rows_are_filled_up_with_the_last_input():
    (rows,) = inputs.in_rows([np.arange(300.0)])
    assert rows.shape == (2, 256)
    assert (rows.ravel()[300:] == 299).all()


@each("name", ["tahn", "select", "matmul", "elu(beta=1)", "i0"])
def test_what_cannot_be_swept_is_refused(name):
    with pytest.raises(InputError):
        named(name)


def test_every_op_has_a_module_of_one_op():
    from opscope.harness.prepare.split import split_module

    ops = every((1, 2, 3))
    assert len(ops) > 130
    for op in ops:
        (single,) = split_module(op.module((2, 8), "bf16"), "case").ops.values()
        assert len(single.inputs) == op.operands, op
        assert [desc.data_type for desc in single.outputs] == ["bf16"], op
