"""What rests on a value that nobody has computed is no golden of the model, no captured input and no import verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.harness.cache.export_folder import OPS, VALUES, WHOLE
from opscope.harness.prepare import whole_row
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.parts.independent import first_uses, parts_of
from opscope.harness.prepare.parts.walk_in_parts import PartWalker
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Missing
from opscope.harness.record.records import OpRow
from opscope.harness.tests.prepare.test_walk import by_name, walked

NOBODY = "%n = stablehlo.custom_call @nobody(%x) : (tensor<4xf32>) -> tensor<4xf32>"
LATER = {
    "chain": """
      %1 = stablehlo.negate %n : tensor<4xf32>
      %2 = stablehlo.tanh %1 : tensor<4xf32>""",
    "function": """
      %2 = func.call @f(%n) : (tensor<4xf32>) -> tensor<4xf32>""",
    "loop": """
      %c = stablehlo.constant dense<3> : tensor<i32>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = stablehlo.while(%i = %z, %v = %n) : tensor<i32>, tensor<4xf32>
        cond { %go = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %go : tensor<i1> }
        do { %w = stablehlo.tanh %v : tensor<4xf32>
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, %w : tensor<i32>, tensor<4xf32> }
      %2 = stablehlo.abs %r#1 : tensor<4xf32>""",
    "branch that captures": """
      %go = stablehlo.constant dense<true> : tensor<i1>
      %b = "stablehlo.if"(%go) ({
        %w = stablehlo.tanh %n : tensor<4xf32>
        stablehlo.return %w : tensor<4xf32>
      }, { stablehlo.return %x : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
      %2 = stablehlo.negate %b : tensor<4xf32>""",
    "barrier": """
      %r:2 = stablehlo.optimization_barrier %x, %n : tensor<4xf32>, tensor<4xf32>
      %2 = stablehlo.abs %r#1 : tensor<4xf32>""",
    "one of two operands": """
      %1 = stablehlo.multiply %x, %n : tensor<4xf32>
      %2 = stablehlo.negate %1 : tensor<4xf32>""",
}


def module(body: str) -> str:
    """A program with a result that rests on nobody's and one that does not."""
    return f"""func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
      {NOBODY}
      {body}
      %own = stablehlo.cosine %x : tensor<4xf32>
      return %2, %own : tensor<4xf32>, tensor<4xf32>
    }}
    func.func private @f(%v: tensor<4xf32>) -> tensor<4xf32> {{
      %1 = stablehlo.tanh %v : tensor<4xf32>
      %2 = stablehlo.negate %1 : tensor<4xf32>
      return %2 : tensor<4xf32>
    }}"""


@pytest.mark.parametrize("body", LATER.values(), ids=LATER)
def test_a_result_that_rests_on_nothing_is_none(body: str, tmp_path: Path) -> None:
    _, rows = walked(module(body), tmp_path)
    resting, own = rows.results
    assert isinstance(resting, Missing)
    assert resting.why.startswith("rests on stablehlo.custom_call:nobody: ")
    assert isinstance(own, np.ndarray)
    for row in rows.rows:
        if row.op_name in ("stablehlo.custom_call:nobody", "stablehlo.cosine", "stablehlo.compare", "stablehlo.add"):
            assert row.provenance.startswith("captured:")
            continue
        # Judged all the same, on inputs that say what they are.
        assert row.golden, row.op_name
        assert any(source.kind == "random" for source in row.sources)
        assert row.provenance.startswith("random:0")
        row_inputs(row, tmp_path)
    [nobody] = by_name(rows.rows, "custom_call:nobody")
    assert not nobody.golden


def test_a_record_names_the_captured_inputs_beside_random_ones(tmp_path: Path) -> None:
    _, rows = walked(module(LATER["one of two operands"]), tmp_path)
    [multiply], [negate] = by_name(rows.rows, "multiply"), by_name(rows.rows, "negate")
    assert [source.kind for source in multiply.sources] == ["seeded", "random"]
    assert multiply.provenance == "random:0+captured:m:0:main/1"
    assert negate.provenance == "random:0"
    x, n = row_inputs(multiply, tmp_path)
    np.testing.assert_array_equal(row_golden(multiply, tmp_path)[0], x * n)


def test_a_barrier_hands_on_what_has_a_value(tmp_path: Path) -> None:
    text = module(LATER["barrier"]).replace("stablehlo.cosine %x", "stablehlo.cosine %r#0")
    _, rows = walked(text, tmp_path)
    assert isinstance(rows.results[1], np.ndarray)
    assert by_name(rows.rows, "cosine")[0].provenance.startswith("captured:")


def whole(text: str, rows: Any, folder: Path) -> OpRow:
    split = split_module(text, "m")
    distributions = ["uniform:0,1"] * len(split.program.arguments)
    whole_row.write(folder, "m", whole_row.WholeProgram(split, rows.results, distributions, 0))
    return OpRow.model_validate_json((folder / WHOLE).read_text())


def test_the_whole_model_has_no_golden(tmp_path: Path) -> None:
    text = module(LATER["chain"])
    row = whole(text, walked(text, tmp_path)[1], tmp_path)
    assert not row.golden
    assert row.no_golden.startswith("rests on stablehlo.custom_call:nobody: ")


def test_a_walk_in_parts_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    plan, one = walked(module(LATER["chain"]), tmp_path / "one")
    plan.folder = tmp_path
    for name in (OPS, VALUES):
        (tmp_path / name).mkdir()
    walker = PartWalker(plan, first_uses(plan.split))
    results = [result for part in parts_of(plan.split) for result in walker.part(part)]
    walker.close()
    assert [getattr(each, "why", "") for _, each in sorted(results, key=lambda result: result[0])] == [
        getattr(e, "why", "") for e in one.results
    ]
    assert [walker.row(op).provenance for op in plan.split.ops.values()] == [row.provenance for row in one.rows]


def test_a_walk_beside_a_device_has_no_values_either() -> None:
    split = split_module(module(LATER["chain"]), "m")
    paths = [node.path for node in split.program.nodes]
    live = LiveGolden(split, [np.ones(4, np.float32)], frozenset(paths), None)
    try:
        missing = [[isinstance(value, Missing) for value in live.results(path)] for path in paths]
    finally:
        live.close()
    assert missing == [[True], [True], [True], [False]]


DROPOUT = """func.func @main(%x: tensor<512xf32>) -> (tensor<512xf32>, tensor<512xf32>) {
  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.constant dense<512> : tensor<1xi64>
  %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<512xf32>
  %h = stablehlo.constant dense<0.5> : tensor<512xf32>
  %k = stablehlo.compare GT, %r, %h : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
  %z = stablehlo.constant dense<0.0> : tensor<512xf32>
  %d = stablehlo.select %k, %x, %z : tensor<512xi1>, tensor<512xf32>
  %o = stablehlo.negate %x : tensor<512xf32>
  return %d, %o : tensor<512xf32>, tensor<512xf32>
}"""


def test_numbers_that_each_implementation_draws_for_itself_are_inputs_and_no_results(tmp_path: Path) -> None:
    _, rows = walked(DROPOUT, tmp_path)
    dropped, own = rows.results
    assert isinstance(dropped, Missing)
    assert dropped.why.startswith("rests on stablehlo.rng: ")
    assert isinstance(own, np.ndarray)
    for name in ("compare", "select"):
        [row] = by_name(rows.rows, name)
        assert row.golden
        assert row.provenance.startswith("captured:")


LOOP_THAT_DRAWS = """func.func @main(%x: tensor<4xui64>) -> tensor<2xui64> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %c = stablehlo.constant dense<3> : tensor<i32>
  %s = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
  %r:2 = stablehlo.while(%i = %z, %v = %s) : tensor<i32>, tensor<2xui64>
    cond { %go = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %go : tensor<i1> }
    do { %state, %bits = stablehlo.rng_bit_generator %v, algorithm = ALGORITHM
           : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui64>)
         %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j, %bits : tensor<i32>, tensor<2xui64> }
  return %r#1 : tensor<2xui64>
}"""


@pytest.mark.parametrize(("algorithm", "known"), [("DEFAULT", False), ("THREE_FRY", True)])
def test_a_loop_that_draws_them_has_no_golden(algorithm: str, known: bool, tmp_path: Path) -> None:
    _, rows = walked(LOOP_THAT_DRAWS.replace("ALGORITHM", algorithm), tmp_path)
    [loop] = by_name(rows.rows, "while")
    assert bool(loop.golden) is known
    assert isinstance(rows.results[0], Missing) is not known
