"""Custom calls that stand for composites have the golden and the verdict of their formula."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.formulas.nearest import rounded
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.prepare.golden import GoldenError, compile_module
from opscope.harness.prepare.split import split_module
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import HOST

TYPES = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16)}
NORM = "epsilon = 1.0e-5 : f32, normalized_shape = dense<64> : tensor<1xi64>"
CALLS = {
    "gelu": ([(32, 64)], ""),
    "gelu_tanh": ([(32, 64)], ""),
    "rms_norm": ([(32, 64), (64,)], NORM),
    "layer_norm": ([(32, 64), (64,), (64,)], NORM),
    "scaled_dot_product_attention": ([(1, 2, 16, 32)] * 3, "is_causal = true"),
}
"""Name -> the shapes of its operands, and attributes."""


def called(name, kind, more=""):
    shapes, attributes = CALLS[name]
    tensors = [f"tensor<{'x'.join(map(str, shape))}x{kind}>" for shape in shapes]
    arguments = ", ".join(f"%x{n}: {tensor}" for n, tensor in enumerate(tensors))
    text = f"""func.func @main({arguments}) -> {tensors[0]} {{
      %y = stablehlo.custom_call @tenstorrent.{name}({", ".join(f"%x{n}" for n in range(len(shapes)))})
        {{tt.composite_attributes = {{{attributes}{more}}}, tt.has_custom_sharding}} :
        ({", ".join(tensors)}) -> {tensors[0]}
      return %y : {tensors[0]}
    }}"""
    (op,) = split_module(text, "case").ops.values()
    rng = np.random.default_rng(0)
    return op, [(2 * rng.standard_normal(shape)).astype(TYPES[kind]) for shape in shapes]


def exact(name, inputs):
    formula, given = {
        "scaled_dot_product_attention": ("sdpa", {"scale": None, "is_causal": True}),
    }.get(name, (name, {"epsilon": float(np.float32(1e-5)), "normalized_shape": (64,)} if "norm" in name else {}))
    return FORMULAS[formula].exact(*(x.astype(np.float64) for x in inputs), **given)


@pytest.mark.parametrize("kind", sorted(TYPES))
@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_call_has_its_formulas_golden_and_verdict(name, kind):
    op, inputs = called(name, kind)
    (golden,) = compile_module(op.bytecode, widen=True)(inputs)
    right = exact(name, inputs)
    np.testing.assert_array_equal(golden, rounded(right, TYPES[kind]))
    known = Operands(op.op_name, op.bytecode, lambda: inputs)
    lies = (right * 1.02, np.where(np.abs(right) < 0.05, 0.5 * right, right), -right)
    for values, answer in ((right, True), *((lie, False) for lie in lies)):
        (check,) = compare_op(op, [golden], [rounded(values, TYPES[kind])], HOST, known)
        assert check.passed is answer, check
        assert "body_differs" not in check.flags


def test_a_call_with_attributes_that_no_formula_knows_has_neither():
    op, inputs = called("gelu", "f32", "sharpness = 2 : i64")
    with pytest.raises(GoldenError):
        compile_module(op.bytecode, widen=True)(inputs)


def test_operands_that_the_formula_does_not_take_are_an_error_of_the_op():
    op, (x, weight, bias) = called("layer_norm", "f32")
    run = compile_module(op.bytecode, widen=True)
    with pytest.raises(GoldenError):
        run([x, weight[:3], bias])
