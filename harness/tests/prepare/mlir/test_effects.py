"""Programs with tokens and prints: what is left has the values of the program, and nothing else at its edge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.export import export_file, handed_over
from opscope.harness.prepare.mlir import effects
from opscope.harness.prepare.split import split_module
from opscope.models.frontends import child
from opscope.models.frontends.base import ExportResult

X = np.arange(1, 5, dtype=np.float32)


def ordered(x):
    import jax
    import jax.numpy as jnp

    jax.debug.print("first {}", x[0], ordered=True)
    y = jnp.sin(x)
    jax.debug.print("then {}", y[1], ordered=True)
    return y * 2


def in_a_loop(x):
    import jax

    def body(i, carried):
        jax.debug.print("step {}", i, ordered=True)
        return carried * 2

    return jax.lax.fori_loop(0, 3, body, x)


def in_nested_loops(x):
    import jax

    def outer(carried, _):
        return in_a_loop(carried), carried[0]

    return jax.lax.scan(outer, x, None, length=2)


def in_a_branch(x):
    import jax

    def said(v):
        jax.debug.print("branch {}", v, ordered=True)
        return v + 1

    return jax.lax.cond(x[0] > 0, said, lambda v: v - 1, x)


def unordered(x):
    import jax

    jax.debug.print("any time {}", x)
    jax.debug.callback(lambda v: None, x, ordered=True)
    return x * 3


def donated(x):
    return ordered(x)


CASES = {
    ordered: ([2 * np.sin(X)], 2),
    in_a_loop: ([8 * X], 1),
    in_nested_loops: ([64 * X, np.array([1, 8], np.float32)], 1),
    in_a_branch: ([X + 1], 1),
    unordered: ([3 * X], 2),
    donated: ([2 * np.sin(X)], 2),
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_an_exported_program_has_its_values_and_no_tokens(tmp_path: Path, function) -> None:
    import jax

    expected, prints = CASES[function]
    lowered = jax.jit(function, donate_argnums=(0,) if function is donated else ()).lower(X)
    child.write_result(ExportResult(mlir.to_bytecode(mlir.load(lowered.compiler_ir("stablehlo"))), (), "jax"), tmp_path)
    lines: list[str] = []
    exported = handed_over(tmp_path, lines.append)
    [line] = lines
    assert (
        line
        == f"left out {prints} call{'s' * (prints > 1)} of Python that give the program no value, as debug prints do"
    )
    module = mlir.load(exported.bytecode)
    assert module.operation.verify()
    text = str(module)
    assert not [word for word in ("token", "callback", "sdy") if word in text]
    for got, right in zip(golden.compile_module(module)([X]), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6)
    split = split_module(exported.bytecode, "net")
    assert len(split.program.arguments) == 1
    assert split.unsplittable_uses == 0


TEXT = """
func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %t: !stablehlo.token, %n: tensor<i32>)
    -> (!stablehlo.token, tensor<4xf32>, !stablehlo.token) {
  %c = stablehlo.create_token : !stablehlo.token
  %a = stablehlo.after_all %t, %c : !stablehlo.token
  %r:2 = "stablehlo.case"(%n) ({
    %p = func.call @f(%a, %x) : (!stablehlo.token, tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %a, %p : !stablehlo.token, tensor<4xf32>
  }, {
    %q:2 = stablehlo.optimization_barrier %x, %a : tensor<4xf32>, !stablehlo.token
    stablehlo.return %q#1, %q#0 : !stablehlo.token, tensor<4xf32>
  }) : (tensor<i32>) -> (!stablehlo.token, tensor<4xf32>)
  return %r#0, %r#1, %t : !stablehlo.token, tensor<4xf32>, !stablehlo.token
}
func.func private @f(%t: !stablehlo.token, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def test_a_file_may_have_tokens_anywhere(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(TEXT)
    lines: list[str] = []
    module = mlir.load(export_file(tmp_path / "net.mlir", note=lines.append).bytecode)
    assert lines == []
    assert "token" not in str(module)
    assert "tf.aliasing_output = 0" in str(module), "the only result that is left"
    program = golden.compile_module(module)
    for number, right in ((0, 2 * X), (1, X)):
        [got] = program([X, np.array(number, np.int32)])
        np.testing.assert_array_equal(got, right)


def test_what_gives_values_keeps_a_token_of_its_own() -> None:
    module = mlir.load(
        """
        func.func @main(%t: !stablehlo.token, %x: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>) {
          %0:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%t, %x) {has_side_effect = true}
            : (!stablehlo.token, tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>)
          return %0#0, %0#1 : !stablehlo.token, tensor<4xf32>
        }"""
    )
    assert effects.without_effects(module) == ""
    assert module.operation.verify()
    assert "func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32>" in str(module)
    _, op = split_module(module, "net").ops.values()
    assert (op.op_name, op.unsplittable) == ("stablehlo.custom_call:xla_ffi_python_cpu_callback", "")
