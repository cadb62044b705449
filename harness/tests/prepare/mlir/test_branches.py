"""Functions whose blocks branch: what becomes one block with `stablehlo.if`, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.prepare import mlir
from opscope.harness.prepare.export import export_file
from opscope.harness.prepare.mlir import interpreter
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError

FUNCTION = """func.func @main(%p: tensor<i1>, %q: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {{
  {}
}}"""
SCALARS = {"%c": "%c = tensor.extract %p[] : tensor<i1>\n  ", "%d": "%d = tensor.extract %q[] : tensor<i1>\n  "}
CHAIN = """%0 = stablehlo.abs %a : tensor<2xf32>
  cf.br ^one(%0 : tensor<2xf32>)
^two(%y: tensor<2xf32>):
  return %y : tensor<2xf32>
^one(%x: tensor<2xf32>):
  %1 = stablehlo.negate %x : tensor<2xf32>
  cf.br ^two(%1 : tensor<2xf32>)
^nobody:
  return %a : tensor<2xf32>"""
DIAMOND = """cf.cond_br %c, ^left(%a : tensor<2xf32>), ^right
^left(%l: tensor<2xf32>):
  %0 = stablehlo.add %l, %l : tensor<2xf32>
  cf.cond_br %d, ^in(%0 : tensor<2xf32>), ^join(%0, %a : tensor<2xf32>, tensor<2xf32>)
^in(%i: tensor<2xf32>):
  %1 = stablehlo.negate %i : tensor<2xf32>
  cf.br ^join(%1, %0 : tensor<2xf32>, tensor<2xf32>)
^right:
  %2 = stablehlo.multiply %a, %a : tensor<2xf32>
  cf.br ^more
^more:
  %3 = stablehlo.abs %2 : tensor<2xf32>
  cf.br ^join(%3, %2 : tensor<2xf32>, tensor<2xf32>)
^join(%x: tensor<2xf32>, %y: tensor<2xf32>):
  %4 = stablehlo.subtract %x, %y : tensor<2xf32>
  return %4 : tensor<2xf32>"""
RETURNS = """cf.cond_br %c, ^now, ^later
^now:
  return %a : tensor<2xf32>
^later:
  %k = arith.constant false
  cf.cond_br %k, ^never, ^last
^never:
  return %a : tensor<2xf32>
^last:
  %0 = stablehlo.negate %a : tensor<2xf32>
  return %0 : tensor<2xf32>"""
A = np.array([1, -3], np.float32)


def function(body: str) -> str:
    """A function that reads the conditions of its branches."""
    return FUNCTION.format("".join(line for name, line in SCALARS.items() if name in body) + body)


def values(text: str, *conditions: bool) -> list[float]:
    exported = mlir.parse(text)
    split_module(exported)  # in place
    inputs = [*(np.array(c) for c in conditions), A]
    return interpreter.evaluate(exported, inputs)[0].tolist()


@pytest.mark.parametrize(
    ("body", "results"),
    [
        (CHAIN, {(True, True): [-1, -3]}),
        (DIAMOND, {(True, True): [-4, 12], (True, False): [1, -3], (False, True): [0, 0]}),
        (RETURNS, {(True, True): [1, -3], (False, True): [-1, 3]}),
    ],
)
def test_branches_that_meet_again_compute_what_they_did(
    body: str, results: dict[tuple[bool, bool], list[float]]
) -> None:
    for conditions, expected in results.items():
        assert values(function(body), *conditions) == expected


def test_ops_and_their_places_stay(tmp_path: Path) -> None:
    (path := tmp_path / "net.mlir").write_text(function(DIAMOND))
    exported = export_file(path).bytecode
    assert all(len(op.regions[0].blocks) == 1 for op in mlir.parse(exported).body.operations)
    ops = {op.op_name: op for op in split_module(exported, "net").ops.values()}
    assert set(ops) == {f"stablehlo.{name}" for name in ("if", "add", "negate", "multiply", "abs", "subtract")}
    assert ops["stablehlo.negate"].uses[0].path == "main/0.true/1.true/0"
    assert ops["stablehlo.negate"].uses[0].location == "net.mlir:9"
    assert not any(op.unsplittable for op in ops.values())


def test_a_called_function_may_branch_and_a_scalar_argument_decides() -> None:
    inner = function(RETURNS).replace("@main", "private @part")
    call = "%0 = call @part(%p, %q, %a) : (tensor<i1>, tensor<i1>, tensor<2xf32>) -> tensor<2xf32>\n  return %0"
    assert values(f"{function(f'{call} : tensor<2xf32>')}\n{inner}", False, True) == [-1, 3]
    scalar = """func.func @main(%c: i1, %a: tensor<2xf32>) -> tensor<2xf32> {
      cf.cond_br %c, ^left(%a : tensor<2xf32>), ^right(%a : tensor<2xf32>)
    ^left(%l: tensor<2xf32>):
      %0 = stablehlo.negate %l : tensor<2xf32>
      cf.br ^right(%0 : tensor<2xf32>)
    ^right(%r: tensor<2xf32>):
      return %r : tensor<2xf32>
    }"""
    assert [values(scalar, condition) for condition in (True, False)] == [[-1, 3], [1, -3]]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            "cf.br ^l\n^l:\n  cf.cond_br %c, ^l, ^o\n^o:\n  return %a : tensor<2xf32>",
            "expected branches that lead forward, got a loop by cf.br, cf.cond_br",
        ),
        (
            "cf.cond_br %c, ^s, ^n\n^s:\n  cf.cond_br %d, ^o, ^n\n^n:\n  cf.br ^o\n^o:\n  return %a : tensor<2xf32>",
            "expected branches whose sides have blocks of their own, "
            "got a block that several sides share .by cf.cond_br",
        ),
        (
            "%n = arith.constant 1 : i32\n  cf.switch %n : i32, [default: ^o, 1: ^p]\n"
            "^p:\n  cf.br ^o\n^o:\n  return %a : tensor<2xf32>",
            "expected blocks that end in cf.br, cf.cond_br or func.return, got cf.switch",
        ),
        (
            "%e = arith.andi %c, %d : i1\n  cf.cond_br %e, ^o, ^p\n^p:\n  cf.br ^o\n^o:\n  return %a : tensor<2xf32>",
            r"expected conditions that are read from a tensor<i1> \(tensor.extract\), got one from arith.andi",
        ),
        (
            "cf.cond_br %c, ^o(%c : i1), ^p\n^p:\n  cf.br ^o(%d : i1)\n^o(%x: i1):\n  return %a : tensor<2xf32>",
            "expected tensors as arguments of blocks, got i1",
        ),
    ],
)
def test_other_branches_are_refused_by_name(body: str, line: str) -> None:
    with pytest.raises(InputError, match=f"net: @main: {line}.*; try exporting its control flow as stablehlo.if"):
        split_module(function(body), "net")


@pytest.mark.slow
def test_many_blocks_take_no_more_than_their_number_and_deep_ones_are_one_line() -> None:
    count = 3000
    chain = "".join(f"  cf.br ^b{i}\n^b{i}:\n" for i in range(count))
    assert values(function(f"{chain}  return %a : tensor<2xf32>"), True, True) == A.tolist()
    deep = "".join(f"  cf.cond_br %c, ^b{i}, ^e{i}\n^b{i}:\n" for i in range(count))
    ends = "".join(f"^e{i}:\n  return %a : tensor<2xf32>\n" for i in range(count))
    with pytest.raises(InputError, match="net: expected branches nested a few hundred deep at most, got deeper ones"):
        split_module(function(f"{deep}  return %a : tensor<2xf32>\n{ends}"), "net")


def test_a_declaration_is_no_model() -> None:
    with pytest.raises(InputError, match="net: @main: expected a function with a body, got a declaration"):
        split_module("func.func private @main(tensor<4xf32>) -> tensor<4xf32>", "net")
