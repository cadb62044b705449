"""Pieces of several ops as rows: what they hold, that they compute what the walk does, and which faults they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import make, maker, splat
from opscope.compiler.passes import ttir_erase_inverse_ops, ttnn_fusing
from opscope.compiler.passes.ttir_fusing import activations, convolutions, reductions
from opscope.compiler.passes.ttir_fusing.matching import RULES, Rule, orders
from opscope.harness.backends.reference import Reference
from opscope.harness.backends.xla import Xla
from opscope.harness.cache import export_folder
from opscope.harness.lanes.ladder import climb
from opscope.harness.prepare import mlir, whole_row
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.input_distributions import argument_distributions
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.prepare.model_pieces import rows_of
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.subgraph import Piece, layers, reads, scope_of, windows
from opscope.harness.prepare.walk import WalkTask, walk
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import ManifestHeader, OpRow
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Status
from opscope.harness.tests.verdict.test_intermediates import CALLS


def exported(folder: Path, module: str, roles: tuple[str, ...] = ()) -> tuple[Path, list[OpRow]]:
    """An export folder of a module, and the rows of its single ops."""
    for name in (export_folder.OPS, export_folder.VALUES):
        (folder / name).mkdir(parents=True)
    (folder / export_folder.MODULE).write_bytes(mlir.to_bytecode(mlir.load(module)))
    split = split_module(module, "net")
    laws = argument_distributions(split)
    walked = walk(WalkTask(split=split, distributions=laws, seed=0, folder=folder, provenance="captured:net:0"))
    whole = whole_row.WholeProgram(split, walked.results, laws, 0, "x", argument_types=roles)
    whole_row.write(folder, "net", whole)
    counts = {"module_ops": {"net": split.module_ops}, "structural": {"net": split.structural}}
    header = ManifestHeader(models=("net",), export_dirs=(str(folder),), **counts)
    export_folder.write_manifest(folder, header, walked.rows)
    return folder, walked.rows


def pieces(folder: Path, module: str, workflow: str = "windows:4", roles: tuple[str, ...] = ()) -> list[OpRow]:
    """The rows of the pieces of a module; their files lie in `folder`/pieces."""
    base, _ = exported(folder / "base", module, roles)
    for name in (export_folder.OPS, export_folder.VALUES):
        (folder / "pieces" / name).mkdir(parents=True)
    return rows_of(base, folder / "pieces", workflow)


# --- which ops a window holds ----------------------------------------------------------------------------------------

DIAMOND = """func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %two = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %0 = stablehlo.multiply %x, %two : tensor<8xf32>
  %1 = stablehlo.tanh %0 : tensor<8xf32>
  %2 = stablehlo.exponential %0 : tensor<8xf32>
  %3 = stablehlo.add %1, %y : tensor<8xf32>
  %4 = stablehlo.subtract %3, %2 : tensor<8xf32>
  %5 = stablehlo.abs %4 : tensor<8xf32>
  return %5, %1 : tensor<8xf32>, tensor<8xf32>
}"""


def names(piece: Piece) -> list[str]:
    return [node.name.partition(".")[2] for node in piece.members]


def test_a_window_is_an_op_with_the_producers_nearest_to_it() -> None:
    split = split_module(DIAMOND, "net")
    found = {names(piece)[-1]: piece for piece in windows(split.program, 3)}
    assert {end: names(piece) for end, piece in found.items()} == {
        "exponential": ["multiply", "exponential"],
        "add": ["multiply", "tanh", "add"],
        "subtract": ["exponential", "add", "subtract"],
        "abs": ["add", "subtract", "abs"],
    }
    makers = {value: node.name for node in split.program.nodes for value in node.results}
    leaving = {end: [makers[value].partition(".")[2] for value in piece.results] for end, piece in found.items()}
    assert leaving["add"] == ["multiply", "tanh", "add"], "the exponential reads the product, the model returns tanh"
    assert leaving["subtract"] == ["subtract"], "what only the window reads stays in it"
    whole = [node.name.partition(".")[2] for node in found["exponential"].nodes]
    assert whole == ["constant", "broadcast_in_dim", "multiply", "exponential"], "splats come along"
    assert len(found["exponential"].arguments) == 1


def test_windows_are_convex_and_connected_and_end_in_each_op_unless_another_holds_it() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        lines, values = [], ["%x", "%y"]
        for number in range(20):
            left, right = rng.choice(values[-6:], 2)
            lines.append(f"  %{number} = stablehlo.add {left}, {right} : tensor<4xf32>")
            values.append(f"%{number}")
        head = "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {"
        program = split_module("\n".join([head, *lines, "  return %19 : tensor<4xf32>", "}"]), "net").program
        maker_of = {value: place for place, node in enumerate(program.nodes) for value in node.results}
        before = {
            place: {maker_of[value] for value in reads(node) if value in maker_of}
            for place, node in enumerate(program.nodes)
        }
        above = dict(before)
        for place in sorted(above):
            above[place] = above[place].union(*(above[each] for each in before[place]))
        places = {node.path: place for place, node in enumerate(program.nodes)}
        found = windows(program, 5)
        held_by = {places[piece.members[-1].path]: {places[node.path] for node in piece.members} for piece in found}
        for place in (place for place in places.values() if before[place] and place not in held_by):
            few = above[place] | {place}
            assert len(few) < 5
            assert any(few < held for held in held_by.values())
        for piece in found:
            held = {places[node.path] for node in piece.members}
            end = max(held)
            assert held <= above[end] | {end}, "connected: all lead to the end"
            for outer in above[end] - held:
                assert not (above[outer] & held), "convex: nothing of it lies before what is outside"
            assert len(held) == min(5, len(above[end]) + 1)


LAYERED = """#a = loc("jit(f)/embed/mul")
#b0 = loc("jit(f)/layer0.attention/tanh")
#c0 = loc("jit(f)/layer0.output/add")
#g = loc("jit(f)/gelu/logistic")
#b1 = loc("jit(f)/layer1.attention/tanh")
#c1 = loc("jit(f)/layer1.output/add")
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<8xf32> loc(#a)
  %1 = stablehlo.tanh %0 : tensor<8xf32> loc(#b0)
  %2 = stablehlo.logistic %1 : tensor<8xf32> loc(#g)
  %3 = stablehlo.add %2, %0 : tensor<8xf32> loc(#c0)
  %4 = stablehlo.tanh %3 : tensor<8xf32> loc(#b1)
  %5 = stablehlo.logistic %4 : tensor<8xf32> loc(#g)
  %6 = stablehlo.add %5, %3 : tensor<8xf32> loc(#c1)
  %7 = stablehlo.negate %6 : tensor<8xf32> loc(#g)
  return %7 : tensor<8xf32>
}"""


def test_a_layer_is_a_numbered_scope_with_what_lies_between_its_ops(tmp_path: Path) -> None:
    program = split_module(LAYERED, "net").program
    assert {piece.name: names(piece) for piece in layers(program)} == {
        "layer:layer0": ["tanh", "logistic", "add"],
        "layer:layer1": ["tanh", "logistic", "add"],
    }
    (row,) = pieces(tmp_path, LAYERED, "layers")
    assert [use.path for use in row.uses] == ["main/3", "main/6"], "equal layers are one row"
    with pytest.raises(InputError, match="numbered scopes"):
        pieces(tmp_path / "none", DIAMOND, "layers")
    head = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>"
    single = f"{head} {{\n%0 = stablehlo.tanh %x : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}}"
    with pytest.raises(InputError, match="ops that read one another, got none; try --workflow split"):
        pieces(tmp_path / "single", single)


@each(
    ("location", "scope"),
    [
        ("jit(f)/layer3.attention.query/dot_general (bert.py:9)", "layer3"),
        ("jit(resnet50)/stage1/block0/bn/mul (resnet50.py:76)", "stage1/block0"),
        ("model/layers/[11]/mlp/fc1/dot (m.py:1)", "model/layers/[11]"),
        ("jit(f)/jit(gelu)/mul (a.py:2)", ""),
        ("jit(f)/add2 (a.py:2)", ""),
        ("a.py:2", ""),
    ],
)
def test_the_scope_of_an_op_is_the_first_numbered_part_of_its_location(location: str, scope: str) -> None:
    assert scope_of(location) == scope


# --- what it is made of ----------------------------------------------------------------------------------------------

KINDS = """module {
  func.func @main(%x: tensor<4x6xf32>, %k: tensor<2xui64>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<4x6xi1>) {
    %mask = stablehlo.constant dense<[[true, false, true, true, false, true]]> : tensor<1x6xi1>
    %scale = stablehlo.constant dense<[1.5, -2.0, 0.25, 3.0, 1.0, 0.5]> : tensor<6xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
    %1 = stablehlo.multiply %x, %0 : tensor<4x6xf32>
    %2 = stablehlo.composite "chlo.softish" %1 {decomposition = @soft} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %3:2 = "stablehlo.sort"(%2, %1) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %lt = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }) {dimension = 1 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>)
    %4 = stablehlo.reduce(%3#1 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %5 = stablehlo.broadcast_in_dim %mask, dims = [0, 1] : (tensor<1x6xi1>) -> tensor<4x6xi1>
    %6 = stablehlo.select %5, %3#0, %1 : tensor<4x6xi1>, tensor<4x6xf32>
    %state, %bits = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY
      : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x6xui32>)
    %7 = stablehlo.convert %bits : (tensor<4x6xui32>) -> tensor<4x6xf32>
    %8 = stablehlo.compare GT, %7, %6 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    return %6, %4, %8 : tensor<4x6xf32>, tensor<6xf32>, tensor<4x6xi1>
  }
  func.func private @soft(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.tanh %x : tensor<4x6xf32>
    %1 = stablehlo.add %0, %x : tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}"""
"""Constants of many values, a function of an op's own, two results, a region, random bits."""


STEP = """
      %e = stablehlo.exponential %v : tensor<4x4xf32>
      %t = stablehlo.tanh %e : tensor<4x4xf32>"""
LOOPS = CALLS.replace("\n      %t = stablehlo.tanh %v : tensor<4x4xf32>", STEP).replace(
    "  return %3", STEP.replace("%v", "%3") + "\n  return %t"
)
"""A loop, and after it two ops of its body once more."""


@pytest.mark.parametrize(
    ("module", "size"),
    [
        (DIAMOND, 2),
        (LOOPS, 9),
        (KINDS, 9),
        # quick: each module and each end of the sizes, above
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((DIAMOND, 9), (LOOPS, 2), (KINDS, 2))),
        *(pytest.param(module, 4, marks=pytest.mark.slow) for module in (DIAMOND, LOOPS, KINDS)),
    ],
)
def test_a_piece_computes_what_the_walk_does(tmp_path: Path, module: str, size: int) -> None:
    rows = pieces(tmp_path, module, f"windows:{size}")
    assert all(row.golden and not row.unsplittable for row in rows), [row.no_golden for row in rows]
    for row in rows:
        code = (tmp_path / "pieces" / str(row.module)).read_bytes()
        results = compile_module(code, widen=True)(row_inputs(row, tmp_path / "pieces"))
        for result, right in zip(results, row_golden(row, tmp_path / "pieces"), strict=True):
            np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-6)
    assert len({row.op_id for row in rows}) == len(rows)
    assert max(len(row.holds) for row in rows) > 1


def test_bodies_have_pieces_of_their_own_and_equal_ones_are_one_row(tmp_path: Path) -> None:
    rows = pieces(tmp_path, LOOPS, "windows:2")
    places = [use.path for row in rows for use in row.uses]
    assert len(places) == len(set(places))
    assert [[use.path.rpartition("/")[0] for use in row.uses] for row in rows if len(row.uses) > 1] == [
        ["main", "main/3.body"]
    ]
    known = {node.path for node in split_module(LOOPS, "net").program.walk()}
    for row in rows:
        assert {held.path for held in row.holds} <= known
        assert row.holds[-1].path == row.uses[0].path
        assert len({held.path.rpartition("/")[0].partition("@")[0] for held in row.holds if "@" not in held.path}) < 2


def ids(folder: Path, body: str, roles: tuple[str, ...] = ()) -> set[str]:
    head = "func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>"
    gives = body.count(" : tensor") and body.rpartition("return ")[2].count("%")
    module = f"{head}{', tensor<8xf32>' * (gives - 1)}) {{\n{body}" + ", tensor<8xf32>" * (gives - 1) + "\n}"
    return {row.op_id for row in pieces(folder, module, "windows:2", roles) if len(row.holds) == 2}


def test_the_id_of_a_piece_follows_from_what_it_computes_and_hands_out(tmp_path: Path) -> None:
    text = """  %0 = stablehlo.{first} %x, %y : tensor<8xf32>
  %c = stablehlo.constant dense<{number}> : tensor<8xf32>
  %1 = stablehlo.multiply {left}, {right} : tensor<8xf32>
  return {gives} : tensor<8xf32>"""
    usual = {"first": "subtract", "number": "2.0", "left": "%0", "right": "%c", "gives": "%1"}
    changes = [
        {},
        {"first": "add"},
        {"number": "3.0"},
        {"right": "%x"},
        {"right": "%y"},
        {"right": "%0"},
        {"gives": "%1, %0"},
    ]
    found = [ids(tmp_path / str(n), text.format(**usual | change)) for n, change in enumerate(changes)]
    found.append(ids(tmp_path / "known", text.format(**usual), ("input", "parameter")))
    assert all(len(each) == 1 for each in found)
    assert len(set().union(*found)) == len(found)
    again = ids(tmp_path / "again", text.format(**usual).replace("%0", "%other").replace("%1", "%more"))
    assert again == found[0]


# --- faults that no single op shows ----------------------------------------------------------------------------------

NET = """func.func @main(
    %x: tensor<32x64xf32>, %w: tensor<64x48xf32>, %b: tensor<48xf32>, %image: tensor<1x8x8x32xf32>,
    %k: tensor<3x3x32x32xf32>, %s: tensor<32xf32>, %m: tensor<32xf32>, %t: tensor<8x8x8xf32>
  ) -> (tensor<32xf32>, tensor<32x48xf32>, tensor<32x48xf32>, tensor<1x8x8x32xf32>, tensor<8x8x8xf32>,
        tensor<32x48xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<32x48xf32>
  %fifty = stablehlo.constant dense<50.0> : tensor<32xf32>
  %product = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x64xf32>, tensor<64x48xf32>) -> tensor<32x48xf32>
  %wide = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<48xf32>) -> tensor<32x48xf32>
  %linear = stablehlo.add %product, %wide : tensor<32x48xf32>
  %floor = stablehlo.maximum %linear, %half : tensor<32x48xf32>
  %sum = stablehlo.reduce(%floor init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
  %average = stablehlo.divide %sum, %fifty : tensor<32xf32>
  %gate = stablehlo.logistic %floor : tensor<32x48xf32>
  %gated = stablehlo.multiply %linear, %gate : tensor<32x48xf32>
  %small = stablehlo.tanh %gated : tensor<32x48xf32>
  %raised = stablehlo.exponential %small : tensor<32x48xf32>
  %total = stablehlo.reduce(%raised init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
  %below = stablehlo.broadcast_in_dim %total, dims = [0] : (tensor<32xf32>) -> tensor<32x48xf32>
  %shares = stablehlo.divide %raised, %below : tensor<32x48xf32>
  %conv = stablehlo.convolution(%image, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x8x8x32xf32>
  %mean = stablehlo.broadcast_in_dim %m, dims = [3] : (tensor<32xf32>) -> tensor<1x8x8x32xf32>
  %centred = stablehlo.subtract %conv, %mean : tensor<1x8x8x32xf32>
  %factor = stablehlo.broadcast_in_dim %s, dims = [3] : (tensor<32xf32>) -> tensor<1x8x8x32xf32>
  %normed = stablehlo.multiply %centred, %factor : tensor<1x8x8x32xf32>
  %turned = stablehlo.transpose %t, dims = [1, 2, 0] : (tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %steep = stablehlo.sine %turned : tensor<8x8x8xf32>
  %other = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x64xf32>, tensor<64x48xf32>) -> tensor<32x48xf32>
  %bent = stablehlo.tanh %other : tensor<32x48xf32>
  return %average, %gated, %shares, %normed, %steep, %bent : tensor<32xf32>, tensor<32x48xf32>, tensor<32x48xf32>,
    tensor<1x8x8x32xf32>, tensor<8x8x8xf32>, tensor<32x48xf32>
}"""
"""What compilers fuse, and near misses: a maximum with 0.5, a sum of 48 divided by 50, one value's gate for another."""
ROLES = ("input", "parameter", "parameter", "input", "parameter", "parameter", "parameter", "input")


class Net(NamedTuple):
    """A model in a folder."""

    folder: Path
    workflow: str
    alone: list[OpRow]
    """Its single ops; their files are in `folder`/base."""
    rows: list[OpRow]
    """Its pieces by the workflow; their files are in `folder`/pieces."""


WORKFLOWS = ("windows:4", "patterns")
Seed = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, tuple[str, tuple[str, ...], Seed]] = {}
"""Fault -> the op whose pieces show it, the workflows that make such ones, what breaks the reference compiler so."""


def fault(shown_by: str, *workflows: str) -> Callable[[Seed], Seed]:
    def note(seed: Seed) -> Seed:
        FAULTS[seed.__name__] = shown_by, workflows or WORKFLOWS, seed
        return seed

    return note


def replaced(patch: pytest.MonkeyPatch, name: str, rule: Rule, by: Rule) -> None:
    patch.setitem(RULES, name, [by if each is rule else each for each in RULES[name]])


@fault("stablehlo.add")
def a_bias_is_lost(patch: pytest.MonkeyPatch) -> None:
    def lost(op: RowOp) -> list[RowOp] | None:
        ops = convolutions.bias(op)
        if not ops or ops[-1].ROW.ttir != "linear":
            return ops
        return [make("matmul", ops[-1].operands[:2], op.results[0].type, op, **ops[-1].read())]

    replaced(patch, "add", convolutions.bias, lost)


@fault("stablehlo.maximum")
def any_maximum_is_a_relu(patch: pytest.MonkeyPatch) -> None:
    def rash(op: RowOp) -> list[RowOp] | None:
        for value, number in orders(op):
            if splat(number) is not None and maker(value) is not None:
                return [make("relu", [value], op.results[0].type, op)]
        return None

    replaced(patch, "maximum", activations.relu, rash)


@fault("stablehlo.divide")
def any_scaled_sum_is_a_mean(patch: pytest.MonkeyPatch) -> None:
    def rash(op: RowOp) -> list[RowOp] | None:
        source = maker(op.operands[0], "sum")
        if source is None or splat(op.operands[1]) is None:
            return None
        return [make("mean", source.operands, op.results[0].type, op, **source.read())]

    replaced(patch, "div", reductions.mean, rash)


@fault("stablehlo.multiply")
def any_gate_is_ones_own(patch: pytest.MonkeyPatch) -> None:
    def rash(op: RowOp) -> list[RowOp] | None:
        for value, weight in orders(op):
            if maker(weight, "sigmoid") is not None:
                return [make("silu", [value], op.results[0].type, op)]
        return None

    replaced(patch, "multiply", activations.silu, rash)


@fault("stablehlo.divide")
def a_softmax_runs_along_another_dim(patch: pytest.MonkeyPatch) -> None:
    def turned(op: RowOp) -> list[RowOp] | None:
        ops = reductions.softmax(op)
        if not ops:
            return ops
        attrs = ops[-1].read() | {"dimension": 0}
        return [make("softmax", ops[-1].operands, op.results[0].type, op, **attrs)]

    replaced(patch, "div", reductions.softmax, turned)


@fault("stablehlo.subtract")
def a_shift_has_the_other_sign(patch: pytest.MonkeyPatch) -> None:
    def flipped(op: RowOp) -> list[RowOp] | None:
        ops = convolutions.lowered(op)
        if not ops:
            return ops
        (turned,) = [each for each in ops if each.ROW.ttir == "neg"]
        kept = [each for each in ops[:-1] if each is not turned]
        operands = [*ops[-1].operands[:2], turned.operands[0]]
        return [*kept, make("conv2d", operands, op.results[0].type, op, **ops[-1].read())]

    replaced(patch, "subtract", convolutions.lowered, flipped)


@fault("stablehlo.multiply", "patterns")
def a_scale_leaves_the_bias_as_it_was(patch: pytest.MonkeyPatch) -> None:
    def half(op: RowOp) -> list[RowOp] | None:
        ops = convolutions.scaled(op)
        if not ops or len(ops[-1].operands) < 3:
            return ops
        scaled = ops[-2]
        operands = [*ops[-1].operands[:2], scaled.operands[0]]
        return [*ops[:-2], make("conv2d", operands, op.results[0].type, op, **ops[-1].read())]

    replaced(patch, "multiply", convolutions.scaled, half)


@fault("stablehlo.tanh")
def a_product_takes_the_wrong_activation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ttnn_fusing, "_activation", lambda op: "relu")


@fault("stablehlo.sine")
def a_transpose_sinks_the_other_way_round(patch: pytest.MonkeyPatch) -> None:
    right = ttir_erase_inverse_ops.sunk_permute

    def turned(op: RowOp) -> list[RowOp] | None:
        ops = right(op)
        if not ops:
            return ops
        order = ops[-1].read()["permutation"]
        back = tuple(order.index(dim) for dim in range(len(order)))
        return [*ops[:-1], make("permute", ops[-1].operands, op.results[0].type, op, permutation=back)]

    patch.setattr(ttir_erase_inverse_ops, "sunk_permute", turned)


@pytest.fixture(scope="module", params=WORKFLOWS)
def net(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Net:
    """NET and its pieces."""
    folder = tmp_path_factory.mktemp("net")
    rows = pieces(folder, NET, request.param, ROLES)
    return Net(folder, request.param, export_folder.read_manifest(folder / "base")[1], rows)


def verdicts(rows: list[OpRow], export_dir: Path, run: Path) -> dict[str, Status]:
    """The status of each row on the reference compiler, which fuses all that it can."""
    options = ResultOptions(optimization_level=2, workflow="windows:4")
    context = RunContext("run", str(run), options=options)
    return {row.op_id: climb(row, Reference(), context=context, export_dir=export_dir).status for row in rows}


@pytest.mark.slow
def test_pieces_are_right_where_the_compiler_is(net: Net, tmp_path: Path) -> None:
    assert {*verdicts(net.rows, net.folder / "pieces", tmp_path).values()} == {Status.SUCCESS}
    context = RunContext("run", str(tmp_path), "xla", ResultOptions(workflow=net.workflow))
    for row in net.rows:
        test = climb(row, Xla(), context=context, export_dir=net.folder / "pieces")
        assert (test.status, test.workflow, test.op_kind) == (Status.SUCCESS, net.workflow, "piece"), test
        assert test.holds == row.holds


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_piece_shows_a_fault_that_no_op_alone_does(
    net: Net, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown_by, workflows, seed = FAULTS[name]
    if net.workflow not in workflows:
        pytest.skip("shown by larger pieces")
    seed(monkeypatch)
    assert {*verdicts(net.alone, net.folder / "base", tmp_path).values()} == {Status.SUCCESS}
    found = verdicts(net.rows, net.folder / "pieces", tmp_path)
    wrong = [row for row in net.rows if found[row.op_id] is Status.WRONG_RESULT]
    assert any(shown_by in {op.op_name for op in row.holds} for row in wrong), [row.op_params for row in wrong]
