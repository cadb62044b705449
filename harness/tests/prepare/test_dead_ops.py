"""Ops that no result needs are left out of a split and counted; what has an effect, or is read by it, stays."""

from __future__ import annotations

import numpy as np

from opscope.base.tests.each import each
from opscope.harness.prepare.dead_ops import without_dead_ops
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.split import split_module
from opscope.harness.record.ledger import ledger, line
from opscope.harness.record.store import load_run
from opscope.harness.run.api import run_op_by_op

ARGUMENTS = "%x: tensor<4xf32>, %n: tensor<i32>"
LOOP = """
  %{name}:2 = stablehlo.while(%i = %n, %v = %x) : tensor<i32>, tensor<4xf32>
  cond {{
    %t = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }} do {{
    %unread = stablehlo.cosine %v : tensor<4xf32>
    %deep = stablehlo.negate %unread : tensor<4xf32>
    %w = stablehlo.sine %v : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %w : tensor<i32>, tensor<4xf32>
  }}
  """
CONSTANTS = "%c = stablehlo.constant dense<3> : tensor<i32>\n  %one = stablehlo.constant dense<1> : tensor<i32>\n"
TANH = "%y = stablehlo.tanh %x : tensor<4xf32>\n"
CASES = {
    # body, names of the ops that stay, number of the dead
    "a chain": (f"%a = stablehlo.sine %x : tensor<4xf32>\n%b = stablehlo.exponential %a : tensor<4xf32>\n{TANH}", 1, 2),
    "an equal op that is read": (
        "%a = stablehlo.tanh %x : tensor<4xf32>\n%y = stablehlo.tanh %x : tensor<4xf32>\n",
        1,
        1,
    ),
    "a loop": (CONSTANTS + LOOP.format(name="r") + TANH, 1, 6),
    "in a loop": (CONSTANTS + LOOP.format(name="r") + "%y = stablehlo.tanh %r#1 : tensor<4xf32>\n", 5, 2),
    "one result read": ("%a:2 = stablehlo.custom_call @two(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)\n"
                        "%y = stablehlo.tanh %a#1 : tensor<4xf32>\n", 2, 0),
    "a call without effect": ("%a = stablehlo.custom_call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>\n" + TANH, 1, 1),
    "a call with one": (
        "%b = stablehlo.sine %x : tensor<4xf32>\n"
        "%a = stablehlo.custom_call @f(%b) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>\n" + TANH,
        3,
        0,
    ),
    "a loop with one": (
        CONSTANTS + LOOP.format(name="r").replace(
            "%unread = stablehlo.cosine %v :",
            "%unread = stablehlo.custom_call @f(%v) {has_side_effect = true} : (tensor<4xf32>) ->",
        ) + TANH,
        6,
        1,
    ),
    "drawn from a state": (
        "%s = stablehlo.constant dense<4> : tensor<1xi64>\n%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%a = stablehlo.rng %z, %z, %s, distribution = UNIFORM : "
        "(tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>\n" + TANH,
        2,
        0,
    ),
}  # fmt: skip


def module(body: str, result: str = "tensor<4xf32>", value: str = "%y : tensor<4xf32>") -> str:
    return f"func.func @main({ARGUMENTS}) -> {result} {{\n  {body}  return {value}\n}}"


@each("name", CASES)
def test_what_no_result_needs_is_counted_apart(name):
    body, uses, dead = CASES[name]
    whole = split_module(module(body), "m")
    split = without_dead_ops(whole)
    assert (split.uses + split.unsplittable_uses, split.dead) == (uses, dead)
    assert split.module_ops == uses + split.structural + dead
    assert whole.module_ops == split.module_ops


def test_what_is_left_computes_the_same():
    split = without_dead_ops(split_module(module(*CASES["in a loop"][:1]), "m"))
    x = np.float32([0.1, 0.2, 0.3, 0.4])
    walk = LiveGolden(split, [x, np.int32(0)], frozenset(), None)
    try:
        values = {**dict(zip(split.program.arguments, [x, np.int32(0)], strict=True))}
        for node in split.program.nodes:
            made = [np.array(node.value)] if node.value is not None else walk.alone(node, values)
            values.update(zip(node.results, made, strict=True))
        (result,) = (values[number] for number in split.program.results)
    finally:
        walk.close()
    assert np.allclose(result, np.tanh(np.sin(np.sin(np.sin(x)))), atol=1e-6)


def test_a_program_without_results_keeps_its_ops():
    split = split_module(f"func.func @main({ARGUMENTS}) {{\n  {TANH}  return\n}}", "m")
    assert without_dead_ops(split) is split


def test_a_run_counts_dead_ops_and_runs_them_if_asked(tmp_path):
    file = tmp_path / "toy.mlir"
    file.write_text(module(CASES["a chain"][0]))
    for asked, unique, dead in ((False, 1, {"toy": 2}), (True, 3, {})):
        folder = tmp_path / str(asked)
        run_op_by_op(str(file), run_dir=folder, cache_dir=tmp_path / "cache", dead_ops=asked)
        run = load_run(folder)
        books = ledger(run.header, run.rows, run.tests)
        assert (books.unique, books.dead, books.adds_up) == (unique, dead, True)
        assert ("+ 2 dead" in line({"reference": books})) is not asked
