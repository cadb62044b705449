"""Reducing and probing: backends with a bug by a known hidden rule; the smallest op and the rule must be found."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.prepare.mlir.door import load
from opscope.harness.prepare.mlir.variant import Form, build, inlined, read, region_kinds, without_inner_ops
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.split_guard import of_entry
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import load_run
from opscope.harness.tests.faulty_backends import hidden
from opscope.harness.tests.own_backend import own_backend
from opscope.harness.tests.triage.runs import binary, run, unary
from opscope.harness.triage import bundle, in_child, narrowing
from opscope.harness.triage.lab import Lab, Tried, Variant, fewest
from opscope.harness.triage.probe import Probed, probe
from opscope.harness.triage.reduce import Reduced, _Search, form_text, reduce

CONV = """func.func @main(%a: tensor<2x12x12x40xf32>, %b: tensor<3x3x40x24xf32>) -> tensor<2x8x8x24xf32> {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {rhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x12x12x40xf32>, tensor<3x3x40x24xf32>) -> tensor<2x8x8x24xf32>
  return %0 : tensor<2x8x8x24xf32>
}
"""
DOT = """func.func @main(%a: tensor<4x96xf32>, %b: tensor<96x50xf32>) -> tensor<4x50xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<4x96xf32>, tensor<96x50xf32>) -> tensor<4x50xf32>
  return %0 : tensor<4x50xf32>
}
"""
REDUCE = """func.func @main(%a: tensor<8x33x4xf32>) -> tensor<8x4xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %c) across dimensions = [1] : (tensor<8x33x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %1 = stablehlo.multiply %y, %y : tensor<f32>
    %2 = stablehlo.add %x, %1 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }
  return %0 : tensor<8x4xf32>
}
"""
PAIR = """func.func @main(%a: tensor<4x6xf32>, %b: tensor<4x6xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %d = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.reduce(%a init: %c), (%b init: %d) across dimensions = [1]
    : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    reducer(%x: tensor<f32>, %y: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %1 = stablehlo.add %x, %y : tensor<f32>
    %2 = stablehlo.add %i, %j : tensor<i32>
    stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
}
"""
WINDOW = """func.func @main(%a: tensor<8x12xf32>) -> tensor<8x10xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %c) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %1 = stablehlo.maximum %x, %y : tensor<f32>
      stablehlo.return %1 : tensor<f32>
  }) {window_dimensions = array<i64: 1, 2>, window_dilations = array<i64: 1, 2>}
    : (tensor<8x12xf32>, tensor<f32>) -> tensor<8x10xf32>
  return %0 : tensor<8x10xf32>
}
"""

LOOP = """func.func @main(%a: tensor<4x6xf32>, %n: tensor<i32>) -> (tensor<4x6xf32>, tensor<i32>) {
  %0:2 = stablehlo.while(%x = %a, %i = %n) : tensor<4x6xf32>, tensor<i32>
    cond {
      %c = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %c = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.multiply %x, %x : tensor<4x6xf32>
      %2 = stablehlo.add %i, %c : tensor<i32>
      stablehlo.return %1, %2 : tensor<4x6xf32>, tensor<i32>
    }
  return %0#0, %0#1 : tensor<4x6xf32>, tensor<i32>
}
"""
CALLS = (
    LOOP.replace(
        "stablehlo.multiply %x, %x : tensor<4x6xf32>", "func.call @step(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>"
    )
    + """func.func private @step(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0:2 = func.call @both(%x, %x) : (tensor<4x6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>)
  %1 = stablehlo.multiply %0#1, %0#0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
func.func private @both(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = stablehlo.add %x, %y : tensor<4x6xf32>
  return %x, %0 : tensor<4x6xf32>, tensor<4x6xf32>
}
"""
)
BRANCHES = """func.func @main(%a: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = "stablehlo.case"(%n) ({
      %1 = stablehlo.multiply %a, %a : tensor<4xf32>
      stablehlo.return %1, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      %1 = stablehlo.negate %a : tensor<4xf32>
      stablehlo.return %a, %1 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
"""
SORT = """func.func @main(%a: tensor<4xf32>, %b: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
      %1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
  }) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
}
"""


def failing(folder: Path, module: str, rule: str, more: str = "") -> tuple[Path, bundle.Repro]:
    """The repro folder of the one op of a module, on a backend with a bug by `rule`."""
    run_dir, tests = run(folder, module, hidden.write(folder, "hidden_rule", rule, more))
    (test,) = (test for test in tests if not test.success)
    where = narrowing.folder_of(test.op_id, run_dir, "test")
    return where, bundle.read(where)


def reduced(folder: Path, *failure: str) -> Reduced:
    where, repro = failing(folder, *failure)
    with Lab(where, repro, budget=600) as lab:
        outcome = reduce(lab)
        assert outcome.complete
        assert outcome.tried.test is not None
        assert repro.failure.same(outcome.tried.test)
    return outcome


def probed(folder: Path, *failure: str, lanes: int = 1) -> Probed:
    where, repro = failing(folder, *failure)
    with Lab(where, repro, budget=600, lanes=lanes) as lab:
        outcome = probe(lab)
    assert outcome.complete
    return outcome


def slow(*values: object, name: str):
    return pytest.param(*values, marks=pytest.mark.slow, id=name)


@pytest.mark.parametrize(
    ("module", "rule", "more", "operands", "attributes"),
    [
        slow(binary("add", "64x100xf32"), "op.shapes[0][-1] % 32 != 0", "", ((1,), (1,)), (), name="add"),
        slow(
            CONV,
            "op.shapes[0][3] > 32 and 'rhs_dilation' in op.params",
            "",
            ((1, 5, 1, 33), (3, 1, 33, 1)),
            {"rhs_dilation", "batch_group_count", "feature_group_count", "dimension_numbers"},
            name="conv",
        ),
        # Not N = 1: of one number the comparison gives another measure, so the fingerprint is another one.
        slow(
            DOT,
            "op.shapes[0][-1] >= 70",
            hidden.WRONG,
            ((1, 70), (70, 2)),
            {"dot_dimension_numbers"},
            name="dot, wrong",
        ),
        slow(REDUCE, "'stablehlo.add' in str(op.op)", hidden.CRASH, ((1,), ()), {"dimensions"}, name="reduce, crash"),
    ],
)
def test_the_smallest_op(tmp_path: Path, module: str, rule: str, more: str, operands: object, attributes) -> None:
    outcome = reduced(tmp_path, module, rule, more)
    sizes = [sorted(shape) for shape in outcome.after.operands]
    assert sum(map(hidden.sizes, sizes)) <= sum(map(hidden.sizes, operands)), outcome.after
    assert {name for name, _ in outcome.after.attributes} <= set(attributes)
    assert outcome.after.region_ops <= 1
    assert outcome.after.elements < outcome.before.elements


POWER = "(lambda n: n & (n - 1) != 0)"


@pytest.mark.parametrize(
    ("module", "rule", "lines"),
    [
        slow(binary("add", "6x40xf32"), "op.shapes[0][-1] % 32 != 0", ["fails when dim 1 % 32 != 0"], name="mod 32"),
        slow(binary("add", "6x64xf32"), "op.shapes[0][-1] % 8 == 0", ["fails when dim 1 % 8 == 0"], name="mod 8"),
        slow(
            unary("stablehlo.tanh %a : tensor<9xf32>", "9xf32"),
            "op.shapes[0][0] % 2 == 1",
            ["fails when dim 0 % 2 != 0"],
            name="odd",
        ),
        slow(
            unary("stablehlo.tanh %a : tensor<9x700xf32>", "9x700xf32"),
            "op.shapes[0][1] >= 517",
            ["fails when dim 1 >= 517"],
            name="at least",
        ),
        slow(
            unary("stablehlo.multiply %a, %a : tensor<12xf32>", "12xf32"),
            "op.shapes[0][0] % 8 != 0",
            ["fails when dim 0 % 8 != 0"],
            name="twice the same argument",
        ),
        slow(binary("add", "6x3xf32"), "op.shapes[0][0] < 11", ["fails when dim 0 < 11"], name="below"),
        slow(binary("add", "64x64xf32"), "sizes(op.shapes[0]) >= 4096", ["fails when size >= 4096"], name="size"),
        slow(
            unary("stablehlo.tanh %a : tensor<96xf32>", "96xf32"),
            f"{POWER}(op.shapes[0][0])",
            ["fails when dim 0 is no power of 2"],
            name="no power of 2",
        ),
        slow(
            unary("stablehlo.tanh %a : tensor<1x40xf32>", "1x40xf32"),
            "op.shapes[0][0] == 1",
            ["fails when dim 0 < 2"],
            name="one",
        ),
        slow(
            unary("stablehlo.tanh %a : tensor<100xf32>", "100xf32"),
            "op.shapes[0][0] >= 64 and op.shapes[0][0] % 32 != 0",
            ["fails when dim 0 >= 65 and dim 0 % 32 != 0"],
            name="both",
        ),
        slow(
            unary("stablehlo.tanh %a : tensor<100xf32>", "100xf32"),
            "64 <= op.shapes[0][0] < 200",
            ["fails when 64 <= dim 0 < 200"],
            name="between",
        ),
        slow(binary("add", "6x40xf64"), "op.types[0] == 'f64'", ["fails for f64"], name="type"),
        slow(
            binary("add", "6x40xf16"),
            "op.types[0] not in ('f32', 'bf16')",
            ["fails for all types but f32, bf16"],
            name="all types but",
        ),
        slow(DOT, "op.shapes[0][-1] % 64 != 0", ["fails when K % 64 != 0"], name="contracted"),
        slow(CONV, "op.shapes[0][3] % 32 != 0", ["fails when C % 32 != 0"], name="channels"),
        slow(
            CONV,
            "'2, 2' in op.params.get('rhs_dilation', '') or '3, 3' in op.params.get('rhs_dilation', '')",
            ["fails when 2 <= rhs_dilation < 4"],
            name="dilation",
        ),
        slow(
            WINDOW,
            "any(n in '2345678' for n in op.params.get('window_dilations', '')[10:])",
            ["fails when window_dilations[1] > 1"],
            name="window dilation",
        ),
        slow(unary("stablehlo.tanh %a : tensor<7xf32>", "7xf32"), "True", [], name="always"),
    ],
)
def test_the_rule(tmp_path: Path, module: str, rule: str, lines: list[str]) -> None:
    rule = rule.replace("sizes(", "__import__('math').prod(")
    outcome = probed(tmp_path, module, rule)
    assert [line[: len(want)] for line, want in zip(outcome.statements, lines, strict=False)] == lines, outcome
    assert len(outcome.statements) == len(lines), outcome.statements


@pytest.mark.slow
def test_wrong_numbers_are_probed_with_goldens_of_their_own_and_two_lanes(tmp_path: Path) -> None:
    outcome = probed(tmp_path, DOT, "op.shapes[1][1] % 16 != 0", hidden.WRONG, lanes=2)
    assert outcome.statements == ["fails when N % 16 != 0"]
    assert outcome.blame.startswith("its shape is to blame, not its values: it fails with random values")


LARGE = """
    def fail(self, op):
        pass

    def wrong(self, job):
        if max(abs(x).max() for x in job.inputs) > 2:
            job.outputs = [output + 1 for output in job.outputs]
"""


@pytest.mark.slow
def test_values_that_are_to_blame(tmp_path: Path) -> None:
    outcome = probed(tmp_path, binary("add", "16x40xf32"), "True", LARGE)
    assert outcome.blame.startswith(
        "its values are to blame, not its shape: in its own shape the op passes with scaled"
    )
    assert outcome.statements == [], "a size decides only how many large values are left"


@pytest.mark.slow
def test_an_attribute_is_changed_once(tmp_path: Path) -> None:
    """Dimension 0 and dimension 1 are equally simple: one does not become the other, back and forth."""
    where, repro = failing(tmp_path, PAIR, "len(op.shapes[0]) > 1")
    with Lab(where, repro, budget=60) as lab:
        outcome = reduce(lab)
    assert outcome.complete, outcome.steps[-6:]
    assert outcome.after.operands[0] == (1, 1)


@pytest.mark.slow
def test_a_maximum_stays_one(tmp_path: Path) -> None:
    where, repro = failing(tmp_path, WINDOW, "'stablehlo.maximum' in str(op.op)", hidden.WRONG)
    assert repro.failure.question == "" or repro.failure.question in repro.failure.message
    with Lab(where, repro, budget=600) as lab:
        outcome = reduce(lab)
    assert region_kinds(outcome.tried.variant.module) == ("stablehlo.maximum",)
    assert outcome.tried.test is not None
    assert outcome.tried.test.question == repro.failure.question


@pytest.mark.slow
def test_a_failure_that_is_gone_is_one_line(tmp_path: Path) -> None:
    where, repro = failing(tmp_path, binary("add", "2x40xf32"), "True")
    (where / "backend" / "hidden_rule.py").write_text(
        (tmp_path / "hidden_rule.py").read_text().replace("True", "False")
    )
    for narrow in (reduce, probe):
        with (
            Lab(where, repro) as lab,
            pytest.raises(InputError, match="expected the op to fail as recorded, got a pass"),
        ):
            narrow(lab)


LOWERS = """
    def fail(self, op):
        pass

    def climb(self, stage, job):
        super().climb(stage, job)
        if stage == "compile" and job.ir_dir is not None:
            tiny = self.name == "new" and job.results[0].shape[-1] < 10
            name = "my.tiny" if tiny else "my.op"  # another difference, which does not count
            (job.ir_dir / "0.mlir").write_text(f'%0 = "{name}"() <{{tiled = {job.state["broken"]}}}> : () -> ()')
"""


@pytest.mark.slow
def test_the_smallest_op_that_two_backends_lower_differently(tmp_path: Path) -> None:
    backends = [
        hidden.write(tmp_path, name, rule, LOWERS)
        for name, rule in (("old", "False"), ("new", "op.shapes[0][-1] >= 30"), ("twin", "op.shapes[0][-1] >= 30"))
    ]
    run_dir, (test,) = run(tmp_path, binary("add", "64x100xf32"), backends[1])
    assert test.success
    folder = narrowing.folder_of(test.op_id, run_dir, "test", any_status=True)
    with pytest.raises(InputError, match="expected an op that failed"):
        narrowing.folder_of(test.op_id, run_dir, "test")
    with Lab(folder, bundle.read(folder), budget=600, against=backends[0]) as lab:
        outcome = reduce(lab)
        assert lab.difference == "tiled of my.op"
    assert sorted(outcome.after.operands[0]) in ([30], [1, 30])
    assert outcome.complete
    with (
        Lab(folder, bundle.read(folder), budget=600, against=backends[2]) as lab,
        pytest.raises(InputError, match=r"new\.py and .*twin\.py lower differently, got the same lowering"),
    ):
        reduce(lab)


OF_A_MODEL = """
import numpy as np
if stage is Stage.COMPILE:
    if job.ir_dir is not None:
        tiled = NEW and FUSES != "fuses" and job.results[0].shape[-1] >= 30
        fused = NEW and FUSES != "tiles" and b"multiply" in job.module and b"subtract" in job.module
        names = [name for name in ("multiply", "subtract", "add") if name.encode() in job.module]
        names = [name for name in names if name not in ("multiply", "subtract")] + ["fused"] if fused else names
        lines = [f'%{n} = "my.{name}"() <{{tiled = {name == "add" and tiled}}}> : () -> ()'
                 for n, name in enumerate(names)]
        (job.ir_dir / "0.mlir").write_text("func.func @main() {\\n" + "\\n".join(lines) + "\\nreturn\\n}")
    return
job.outputs, job.ran_on = [np.zeros(each.shape, np.float32) for each in job.results], "host"
"""
TILED, FUSED = "tiled of my.add", "my.fused +1"
MODEL = """func.func @main(%a: tensor<64x100xf32>, %b: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %0 = stablehlo.multiply %a, %b : tensor<64x100xf32>
  %1 = stablehlo.subtract %0, %b : tensor<64x100xf32>
  %2 = stablehlo.add %1, %a : tensor<64x100xf32>
  return %2 : tensor<64x100xf32>
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fuses", "asked", "name", "difference", "after"),
    [
        ("tiles", "", "stablehlo.add", "tiled of my.add", ([30], [1, 30])),
        ("fuses", "", "window:subtract", FUSED, ([64, 100],)),
        ("both", TILED, "stablehlo.add", "tiled of my.add", ([30], [1, 30])),
        ("both", FUSED, "window:subtract", FUSED, ([64, 100],)),
    ],
)
def test_a_model_is_reduced_by_way_of_the_op_or_window_that_differs_alone(
    tmp_path: Path, fuses: str, asked: str, name: str, difference: str, after: tuple[list[int], ...]
) -> None:
    for each, new in (("old", False), ("new", True)):
        source = own_backend(each, OF_A_MODEL, at="host", top=f"NEW, FUSES = {new}, {fuses!r}")
        (tmp_path / f"{each}.py").write_text(source, encoding="utf-8")
    (tmp_path / "m.mlir").write_text(MODEL, encoding="utf-8")
    words = "--op-by-op --model m.mlir --workflow full --backend new.py --run-dir run --no-report --noconftest -q"
    done = captured([sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *words.split()], cwd=tmp_path)
    run_dir = tmp_path / "run"
    (test,) = load_run(run_dir).tests or pytest.fail(done.stdout)
    folder = narrowing.folder_of(test.op_id, run_dir, "test", any_status=True)
    search = in_child.Search(lanes=1, budget=600.0, against=str(tmp_path / "old.py"))
    if asked:
        with pytest.raises(InputError, match="--change: expected") as none:
            in_child.narrow(folder, "test", replace(search, change="none"), lambda text: None, tmp_path / "none")
        names = {what: name for name, what in re.findall(r"(\w{8}) \(([^)]*)\)", none.value.expected)}
        search = replace(search, change=names[asked])
    answer = in_child.narrow(folder, "test", search, lambda text: None, tmp_path / "reduced")
    assert (answer["before"]["name"], answer["after"]["name"]) == ("model", name)
    assert answer["steps"][0] == f"{name} alone"
    assert (answer["difference"], answer["complete"]) == (difference, True)
    assert sorted(answer["after"]["operands"][0]) in after
    again = run(tmp_path / "again", (tmp_path / "reduced" / bundle.TEXT).read_text(), str(tmp_path / "new.py"))
    assert again[1], "a file that a compiler takes"
    twin = in_child.Search(lanes=1, budget=600.0, against=str(tmp_path / "new.py"))
    with pytest.raises(InputError, match="lower differently, got the same lowering"):
        in_child.narrow(folder, "test", twin, lambda text: None, tmp_path / "same")


@pytest.mark.slow
@pytest.mark.parametrize("module", [LOOP, CALLS])
def test_a_loop_is_reduced_by_the_ops_of_its_bodies(tmp_path: Path, module: str) -> None:
    outcome = reduced(tmp_path, module, "'stablehlo.while' in str(op.op)")
    assert (outcome.before.name, outcome.before.region_ops) == ("stablehlo.while", 5)
    assert (outcome.after.name, outcome.after.region_ops) == ("stablehlo.while", 3)
    assert b"call" not in outcome.tried.variant.module


def test_what_nobody_reads_is_left_out_without_another_in_its_place() -> None:
    dead = "      %9 = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<24xf32>\n      %2 ="
    (op,) = of_entry(split_module(LOOP.replace("      %2 =", dead)).ops.values())
    assert read(op.bytecode).region_ops == 6
    assert any("reshape" not in str(load(fewer)) for fewer in without_inner_ops(op.bytecode))


def test_branches_of_a_variant_read_its_own_arguments_and_constants() -> None:
    module = BRANCHES.replace("  %0:2", "  %c = stablehlo.constant dense<2.0> : tensor<4xf32>\n  %0:2").replace(
        "%a, %a", "%a, %c"
    )
    (op,) = of_entry(split_module(module).ops.values())
    for _ in range(20):  # what is read after it has gone is there at times
        variant, form = build(op.bytecode, read(op.bytecode))
        assert form == read(op.bytecode)
        text = str(load(variant))
        assert re.search(r"multiply %arg\d, %cst\b", text)
        assert re.search(r"negate %arg\d\b", text)


def test_functions_that_a_body_calls_stand_in_their_places() -> None:
    (op,) = of_entry(split_module(CALLS).ops.values())
    module = inlined(op.bytecode)
    assert module is not None
    assert inlined(module) is None
    text = str(load(module))
    body = text[text.index(" do {") :]
    assert re.findall(r"stablehlo\.(\w+)", body) == ["constant", "add", "multiply", "add", "return"]
    assert re.search(r"%(\d+) = stablehlo\.add %iterArg, %iterArg.*\n.*multiply %\1, %iterArg ", body)
    assert text.count("func.func") == 1


@pytest.mark.parametrize(
    ("module", "name"),
    [(LOOP, "while"), (BRANCHES, "case"), (SORT, "sort"), (PAIR, "reduce"), (REDUCE, "reduce")],
)
def test_an_op_of_several_results_or_bodies_is_one_op(module: str, name: str) -> None:
    (op,) = of_entry(split_module(module).ops.values())
    assert op.op_name == f"stablehlo.{name}"
    single = Variant(op.bytecode, ()).single
    assert (single.op_id, len(single.outputs)) == (op.op_id, len(op.outputs))


@pytest.mark.parametrize(
    ("needed", "ops"),
    [(("multiply", "add"), 2), (("subtract",), 1), (("multiply", "subtract", "add"), 3), (("divide",), None)],
)
def test_of_a_model_stay_the_ops_that_a_change_needs(needed: tuple[str, ...], ops: int | None) -> None:
    split = split_module(MODEL)

    def shows(part: Variant) -> bool:
        names = {node.name.removeprefix("stablehlo.") for node in split_module(part.module).program.nodes}
        return names.issuperset(needed)

    found = fewest(split, shows)
    assert (found and len(split_module(found.module).program.nodes)) == ops


def test_what_is_over_time_builds_no_more_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    split, ends, built = split_module(MODEL), iter((False, False, True)), list[int]()
    monkeypatch.setattr("opscope.harness.triage.lab._window", lambda *_: built.append(1))
    assert fewest(split, lambda _: False, lambda: next(ends, True)) is None
    assert len(built) == 2
    over: Any = SimpleNamespace(out_of_budget=True, best=None)
    monkeypatch.setattr("opscope.harness.prepare.axes.with_size", lambda *_: built.append(1))
    op = next(op for op in split.ops.values() if op.inputs)
    _Search(over, Tried(Variant(op.bytecode, ()), None, fails=True, passes=False), print)._axes()
    assert len(built) == 2


@pytest.mark.parametrize(
    ("operands", "said"),
    [(2, "model(4xf32, 4xf32)"), (6, f"model({', '.join(['4xf32'] * 6)})"), (90, f"model({'4xf32, ' * 5}and 85 more)")],
)
def test_a_whole_model_with_all_its_weights_is_one_line(operands: int, said: str) -> None:
    form = Form("model", ((4,),) * operands, ("f32",) * operands, (), (), (), tuple(range(operands)))
    assert form_text(form) == said
