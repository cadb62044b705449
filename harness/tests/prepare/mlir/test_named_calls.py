"""Custom calls that are another word for an op have its golden and its verdict."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.base.op_families import STANDS_FOR, op_family
from opscope.harness.prepare.domains import domain
from opscope.harness.prepare.golden import GoldenError, compile_module
from opscope.harness.prepare.split import split_module
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import HOST

TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


def called(target, kind):
    tensor = f"tensor<16x16x{kind}>"
    text = f"""func.func @main(%x: {tensor}) -> {tensor} {{
      %y = stablehlo.custom_call @{target}(%x) {{mhlo.version = 1 : i64}} : ({tensor}) -> {tensor}
      return %y : {tensor}
    }}"""
    (op,) = split_module(text, "case").ops.values()
    return op


@pytest.mark.crossed
@pytest.mark.parametrize("kind", sorted(TYPES))
@pytest.mark.parametrize("name", sorted(STANDS_FOR))
def test_a_call_that_stands_for_an_op_has_its_golden_and_its_verdict(name, kind):
    op = called(name.partition(":")[2], kind)
    low, high = domain(name, 0)
    x = np.random.default_rng(0).uniform(max(low, -2), min(high, 3), (16, 16)).astype(TYPES[kind])
    (golden,) = compile_module(op.bytecode, widen=True)([x])
    bare = name.rpartition(".")[2]
    numpy = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atanh": "arctanh"}
    if STANDS_FOR[name].startswith("chlo.") and bare != "erf":
        assert np.allclose(
            golden.astype(np.float64), getattr(np, numpy.get(bare, bare))(x.astype(np.float64)), rtol=1e-2
        )
    known = Operands(op.op_name, op.bytecode, lambda: [x])
    for got, right in ((golden, True), ((1.02 * golden.astype(np.float32)).astype(x.dtype), False)):
        (check,) = compare_op(op, [golden], [got], HOST, known)
        assert check.passed is right, check
    assert op_family(op.op_name) != "custom"


def test_another_call_has_neither():
    op = called("vendor.secret", "f32")
    assert op_family(op.op_name) == "custom"
    with pytest.raises(GoldenError, match=r"vendor\.secret"):
        compile_module(op.bytecode, widen=True)([np.ones((16, 16), np.float32)])
