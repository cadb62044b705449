"""Programs that compute nothing and return constants: these are their ops, with goldens and verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.prepare.mlir import load
from opscope.harness.prepare.split import split_module
from opscope.harness.record.stages import Status

TYPES = {
    "2x2xf64": "[[1.0, 2.0], [3.0, 4.0]]",
    "2xbf16": "[1.5, 2.5]",
    "3xi1": "[true, false, true]",
    "3xi4": "[1, -2, 3]",
    "2xf8E4M3FN": "[1.0, 2.0]",
    "2xcomplex<f32>": "[(1.0, 2.0), (3.0, 4.0)]",
    "0xf32": "[]",
    "i64": "7",
}
OTHER_COMPLEX = "[(1.0, 2.0), (3.0, 5.0)]"


def program(*constants: tuple[str, str], more: str = "", also: str = "") -> str:
    """A function that returns constants of such types and values."""
    lines = [f"%{n} = stablehlo.constant dense<{value}> : tensor<{kind}>" for n, (kind, value) in enumerate(constants)]
    values = ", ".join([*(f"%{n}" for n in range(len(constants))), *filter(None, [also])])
    types = ", ".join([*(f"tensor<{kind}>" for kind, _ in constants), *(["tensor<4xf32>"] if also else [])])
    body = "\n  ".join([*lines, more, f"return {values} : {types}"])
    return f"func.func @main(%x: tensor<4xf32>) -> ({types}) {{\n  {body}\n}}"


def test_each_constant_that_is_returned_is_an_op_and_others_are_not() -> None:
    unused = "%u = stablehlo.constant dense<9.0> : tensor<f32>"
    split = split_module(program(*TYPES.items(), *TYPES.items(), ("2xcomplex<f32>", OTHER_COMPLEX), more=unused))
    assert len(split.ops) == len(TYPES) + 1, "equal constants are one op"
    assert {op.op_name for op in split.ops.values()} == {"stablehlo.constant"}
    assert all(op.bytecode and not op.inputs for op in split.ops.values())
    assert [len(op.uses) for op in split.ops.values()] == [2] * len(TYPES) + [1]
    assert split.module_ops == split.uses + split.unsplittable_uses + split.structural
    assert split.structural == 2, "the unused one and the return"


def test_constants_beside_an_op_stay_values() -> None:
    split = split_module(program(("2xbf16", "[1.5, 2.5]"), more="%y = stablehlo.tanh %x : tensor<4xf32>", also="%y"))
    assert [op.op_name for op in split.ops.values()] == ["stablehlo.tanh"]


def test_a_constant_of_a_function_that_is_called_counts() -> None:
    called = """func.func private @k() -> tensor<2xf32> {
      %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      return %0 : tensor<2xf32>
    }
    func.func @main() -> tensor<2xf32> {
      %0 = call @k() : () -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    [op] = split_module(called).ops.values()
    assert [use.path for use in op.uses] == ["main/0@k/0"]


def test_a_value_that_lies_apart_is_written_into_its_op() -> None:
    apart = """func.func @main() -> tensor<1x2xbf16> {
      %0 = stablehlo.constant dense_resource<weights> : tensor<1x2xbf16>
      return %0 : tensor<1x2xbf16>
    }
    {-# dialect_resources: { builtin: { weights: "0x0200000000400040" } } #-}"""
    [op] = split_module(apart).ops.values()
    assert "dense<2.000000e+00> : tensor<1x2xbf16>" in str(load(op.bytecode))
    plain = program(("1x2xbf16", "2.0"))
    assert [op.op_id] == list(split_module(plain).ops)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["reference", "xla"])
def test_constants_have_verdicts_and_any_type_may_be_a_result(tmp_path: Path, backend: str) -> None:
    from opscope.harness.run.api import run_op_by_op

    pair, op = ("2xbf16", "[1.5, 2.5]"), "%y = stablehlo.abs %x : tensor<4xf32>"
    alone = program(pair, ("3xf32", "[1.0, -0.0, 0x7FC00000]"))
    for number, text in enumerate((alone, program(pair, ("3xi4", "[1, -2, 3]"), more=op, also="%y"))):
        tests = run_op_by_op(
            text, backend=backend, cache_dir=tmp_path / "cache", run_dir=tmp_path / str(number), reruns=0
        )
        assert [test.status for test in tests] == [Status.SUCCESS] * (1 if number else 2)
