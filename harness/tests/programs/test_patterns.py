"""What compilers fuse as rows: that each fusion of the reference happens in a piece too, and which faults they show."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import make as made
from opscope.compiler.dialects.ttir_values import maker, readers, splat
from opscope.compiler.passes import ttir_implicit_broadcast_fold
from opscope.compiler.passes.ttir_fusing import TtirFusing, activations, attention, norm, reductions, rotary
from opscope.compiler.passes.ttir_fusing.matching import RULES, Rule, orders
from opscope.compiler.tests import programs, test_ttir_fusing
from opscope.harness.backends.reference import Reference
from opscope.harness.cache import export_folder
from opscope.harness.lanes.ladder import climb
from opscope.harness.prepare import model_pieces
from opscope.harness.prepare.mlir import piece_module
from opscope.harness.prepare.model_pieces import rows_of
from opscope.harness.prepare.patterns import PATTERNS
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.subgraph import Line, Piece, patterns, reads, uncounted
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Status
from opscope.harness.tests.programs.test_model_pieces import NET, exported, replaced, verdicts
from opscope.harness.triage import bundle, first_bad
from opscope.harness.triage.lab import Lab

# --- which pieces there are ------------------------------------------------------------------------------------------

HEADS = (1, 2, 32, 32)


def masked_attention(q, k, v, mask):
    return jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * 0.125 + mask) @ v


def projections(x, by_q, by_k, by_v):
    return [(x @ each).reshape(32, 2, 32).transpose(1, 0, 2) for each in (by_q, by_k, by_v)]


def rotated_halves(x, cosine, sine):
    low, high = jnp.split(jnp.tanh(x), 2, axis=-1)
    return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


def rotated(x, cosine, sine):
    low, high = jnp.split(x, 2, axis=-1)
    return x * cosine + jnp.concatenate([-high, low], axis=-1) * sine


def weighted_rms_norm(x, weight):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def layer_norm(x, weight, shift):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * weight + shift


def gate(x):
    return 1 / (1 + jnp.exp(-x))


def chain(x, y):
    product = x * y
    bent = jnp.tanh(product)
    return jnp.exp(bent) - bent


def nearly_a_gelu(x, y):
    return x * (1 + jnp.tanh(x + y))


def largest_at(x, y):
    return jnp.argmax(x * y, axis=-1)


def spread(x, column):
    return jnp.sin(x) * column[:, None]


def looked_up(table, rows):
    return table[rows] * 2.0


def cumulated(x):
    return jnp.exp(jnp.cumsum(x, axis=1))


def normed_convolution(image):
    weights = np.sin(np.arange(3 * 3 * 32 * 32, dtype=np.float32)).reshape(3, 3, 32, 32)
    dims = ("NHWC", "HWIO", "NHWC")
    made = jax.lax.conv_general_dilated(image, weights, (1, 1), "SAME", dimension_numbers=dims)
    scale, shift, mean = (np.linspace(low, 2, 32, dtype=np.float32) for low in (0.5, 1, -1))
    return (made - mean) * scale + shift


FORMS: dict[Callable[..., Any], tuple[tuple[int, ...], ...]] = {
    masked_attention: (HEADS, HEADS, HEADS, (1, 1, 32, 32)),
    projections: ((32, 64), (64, 64), (64, 64), (64, 64)),
    rotated_halves: (HEADS, (1, 1, 32, 16), (1, 1, 32, 16)),
    rotated: (HEADS, (1, 1, 32, 32), (1, 1, 32, 32)),
    weighted_rms_norm: ((32, 64), (64,)),
    layer_norm: ((32, 64), (64,), (64,)),
    gate: ((32, 64),),
    chain: ((32, 64), (32, 64)),
    nearly_a_gelu: ((32, 64), (32, 64)),
    largest_at: ((32, 64), (32, 64)),
    spread: ((32, 32), (32,)),
    cumulated: ((32, 64),),
    normed_convolution: ((1, 8, 8, 32),),
}
"""What models compute, and the shapes of the arguments."""


def text(form: Callable[..., Any]) -> str:
    return programs.stablehlo(form, *(jnp.zeros(shape, jnp.float32) for shape in FORMS[form]))


def models() -> Iterator[str]:
    """Modules that hold everything that the reference fuses."""
    yield NET
    yield from map(text, FORMS)
    yield programs.stablehlo(looked_up, jnp.zeros((64, 32)), jnp.zeros((8,), jnp.int32))
    for function, _ in (test_ttir_fusing.FUNCTIONS | test_ttir_fusing.SPELLINGS).values():
        yield programs.stablehlo(function, *test_ttir_fusing.inputs())


def fired(patch: pytest.MonkeyPatch, module: str | bytes) -> set[str]:
    """The names of the rules of `ttir-fusing` that rewrite something in a module."""
    names: set[str] = set()

    def noted(rule: Rule) -> Rule:
        def rewrite(op: RowOp) -> list[RowOp] | None:
            ops = rule(op)
            names.update({rule.__name__} if ops else ())
            return ops

        return rewrite

    with patch.context() as here:
        for key, rules in RULES.items():
            here.setitem(RULES, key, [noted(rule) for rule in rules])
        programs.fused_names(module)
    return names


@pytest.mark.slow
def test_what_the_reference_fuses_in_a_model_it_fuses_in_a_piece_of_a_row_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: dict[str, set[str]] = {}
    for pattern in PATTERNS:
        said.setdefault(pattern.name, set()).update(re.findall(r"\w+", pattern.fused_by.partition(";")[0]))
    every = {rule.__name__ for rules in RULES.values() for rule in rules} - {"written"}
    met: set[str] = set()
    shown: dict[str, set[str]] = {name: set() for name in said}
    for module in models():
        split = split_module(module, "net")
        in_parts = set[str]().union(*(fired(monkeypatch, op.bytecode) for op in split.ops.values()))
        for piece in patterns(split.program):
            rules = fired(monkeypatch, piece_module.build(piece, split))
            shown[piece.name.partition(":")[2]] |= rules
            in_parts |= rules
        rules = fired(monkeypatch, module)
        assert rules <= in_parts, module
        met |= rules
    assert met == every
    assert {name: missing for name, rules in said.items() if (missing := rules & every - shown[name])} == {}


def found(form: Callable[..., Any]) -> list[Piece]:
    return patterns(split_module(text(form), "net").program)


def test_a_pattern_holds_what_lies_between_and_the_moves_that_bring_operands() -> None:
    (norm,) = [piece for piece in found(layer_norm) if piece.name == "pattern:norm"]
    ops = [node.name.partition(".")[2] for node in norm.members]
    assert ops.count("reduce") == 2, "the mean that is subtracted, and that of the squares"
    assert {"rsqrt", "subtract", "broadcast_in_dim"} <= set(ops)
    assert len(norm.results) == 1


def test_ops_side_by_side_are_one_piece() -> None:
    (piece,) = [piece for piece in found(projections) if piece.name == "pattern:products_of_one_value"]
    names = [node.name.partition(".")[2] for node in piece.members]
    assert sorted(names) == sorted(["dot_general", "reshape", "transpose"] * 3)
    assert len(piece.results) == 3


def test_no_piece_computes_what_it_takes_and_none_lies_in_another() -> None:
    for form in FORMS:
        program = split_module(text(form), "net").program
        makers = {value: node for node in program.nodes for value in node.results}
        pieces = patterns(program)
        for piece in pieces:
            held, rest = {node.path for node in piece.members}, list(piece.arguments)
            while rest:
                node = makers.get(rest.pop())
                if node is not None:
                    assert node.path not in held, f"{piece.name} is not convex"
                    rest += reads(node)
        sets = [{node.path for node in piece.members} for piece in pieces]
        assert not any(held <= wider for held, wider in permutations(sets, 2))


def deep(layers: int) -> str:
    """Layers of a product, a bias, a mean and a residual sum, ten ops each."""
    rows, weight, sums = "tensor<4x8xf32>", "tensor<8x8xf32>", "tensor<4xf32>"
    lines = [f"func.func @main(%x0: {rows}, %w: {weight}, %b: tensor<8xf32>) -> {rows} {{"]
    lines += ["%z = stablehlo.constant dense<0.0> : tensor<f32>", f"%n = stablehlo.constant dense<8.0> : {sums}"]
    for i in range(layers):
        lines += [
            f"%t{i} = stablehlo.transpose %w, dims = [1, 0] : ({weight}) -> {weight}",
            f"%d{i} = stablehlo.dot_general %x{i}, %t{i}, contracting_dims = [1] x [0] : ({rows}, {weight}) -> {rows}",
            f"%c{i} = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<8xf32>) -> {rows}",
            f"%a{i} = stablehlo.add %d{i}, %c{i} : {rows}",
            f"%s{i} = stablehlo.reduce(%a{i} init: %z) applies stablehlo.add across dimensions = [1]"
            f" : ({rows}, tensor<f32>) -> {sums}",
            f"%m{i} = stablehlo.divide %s{i}, %n : {sums}",
            f"%e{i} = stablehlo.broadcast_in_dim %m{i}, dims = [0] : ({sums}) -> {rows}",
            f"%q{i} = stablehlo.subtract %a{i}, %e{i} : {rows}",
            f"%h{i} = stablehlo.tanh %q{i} : {rows}",
            f"%x{i + 1} = stablehlo.add %h{i}, %x{i} : {rows}",
        ]
    return "\n".join([*lines, f"return %x{layers} : {rows}", "}"])


def test_a_model_of_four_times_the_ops_takes_four_times_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, before = 0, Line.before

    def counted(line: Line, place: int) -> set[int]:
        nonlocal asked
        asked += 1
        return before(line, place)

    monkeypatch.setattr(Line, "before", counted)
    steps = []
    for layers in (20, 80):
        asked = 0
        assert len(patterns(split_module(deep(layers), "net").program)) >= layers - 1
        steps.append(asked)
    assert steps[1] < 5 * steps[0]


# --- faults that no single op shows ----------------------------------------------------------------------------------


class Fault(NamedTuple):
    """What breaks the reference compiler, and the model that it breaks."""

    form: Callable[..., Any]
    seed: Callable[[pytest.MonkeyPatch], None]


FAULTS: dict[str, Fault] = {}
Change = Callable[[RowOp, list[RowOp]], "list[RowOp] | None"]


def fault(form: Callable[..., Any]) -> Callable[[Callable[[pytest.MonkeyPatch], None]], None]:
    def note(seed: Callable[[pytest.MonkeyPatch], None]) -> None:
        FAULTS[seed.__name__] = Fault(form, seed)

    return note


def changed(patch: pytest.MonkeyPatch, names: tuple[str, ...], rule: Rule, change: Change) -> None:
    """Changes what a rule returns."""

    def wrong(op: RowOp) -> list[RowOp] | None:
        ops = rule(op)
        return change(op, ops) if ops else ops

    for name in names:
        replaced(patch, name, rule, wrong)


def with_operands(op: RowOp, ops: list[RowOp], order: tuple[int, ...], **attrs: Any) -> list[RowOp]:
    """The same with the fused op's operands in another order, or fewer of them."""
    place = max(place for place, each in enumerate(ops) if len(each.operands) > 1)
    fused = ops[place]
    operands = [fused.operands[number] for number in order if number < len(fused.operands)]
    wrong = made(fused.ROW.ttir, operands, fused.results[0].type, op, **fused.read() | attrs)
    fused.results[0].replace_all_uses_with(wrong.results[0])
    fused.erase()
    return [*ops[:place], wrong, *ops[place + 1 :]]


def after_pass(patch: pytest.MonkeyPatch, change: Callable[[list[RowOp]], None], which: type[Any] = TtirFusing) -> None:
    """Changes the program that `ttir-fusing`, or another pass, leaves."""
    right = which.apply

    def wrong(self: Any, ctx: Any, op: Any) -> None:
        right(self, ctx, op)
        change([each for each in op.walk() if isinstance(each, RowOp)])

    patch.setattr(which, "apply", wrong)


@fault(masked_attention)
def keys_and_values_change_places(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("matmul",), attention.attention, lambda op, ops: with_operands(op, ops, (0, 2, 1, 3)))


@fault(masked_attention)
def a_mask_is_lost(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("matmul",), attention.attention, lambda op, ops: with_operands(op, ops, (0, 1, 2)))


@fault(masked_attention)
def a_scale_is_lost(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("matmul",), attention.attention, lambda op, ops: with_operands(op, ops, (0, 1, 2, 3), scale=1.0))


@fault(rotated_halves)
def sine_and_cosine_change_places(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("concat",), rotary.halves, lambda op, ops: with_operands(op, ops, (0, 2, 1)))


@fault(rotated)
def all_angles_are_cosines(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("add",), rotary.turned, lambda op, ops: with_operands(op, ops, (0, 1, 1)))


@fault(weighted_rms_norm)
def a_weight_is_lost(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("multiply",), norm.weighted, lambda op, ops: with_operands(op, ops, (0,)))


@fault(layer_norm)
def a_norm_is_not_centred(patch: pytest.MonkeyPatch) -> None:
    def wrong(op: RowOp, ops: list[RowOp]) -> list[RowOp]:
        last = ops[-1]
        if last.ROW.ttir != "layer_norm":
            return ops
        return [*ops[:-1], made("rms_norm", last.operands, last.results[0].type, op, **last.read())]

    changed(patch, ("multiply", "div"), norm.normalised, wrong)


@fault(layer_norm)
def a_shift_takes_the_place_of_the_weight(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("add",), norm.shifted, lambda op, ops: with_operands(op, ops, (0, 2, 1)))


@fault(nearly_a_gelu)
def any_gate_by_tanh_is_a_gelu(patch: pytest.MonkeyPatch) -> None:
    def rash(op: RowOp) -> list[RowOp] | None:
        for value, weight in orders(op):
            total = maker(weight, "add")
            if total is not None and any(maker(each, "tanh") is not None for each in total.operands):
                return [made("gelu", [value], op.results[0].type, op, approximate="tanh")]
        return None

    replaced(patch, "multiply", activations.gelu, rash)


@fault(largest_at)
def the_lowest_is_the_largest(patch: pytest.MonkeyPatch) -> None:
    def wrong(op: RowOp, ops: list[RowOp]) -> list[RowOp]:
        turned = made("neg", ops[1].operands, ops[1].operands[0].type, op)
        return [turned, ops[0], made("argmax", turned.results, ops[1].results[0].type, op, **ops[1].read())]

    changed(patch, ("reduce_body",), reductions.argmax, wrong)


@fault(spread)
def a_column_is_read_as_a_row(patch: pytest.MonkeyPatch) -> None:
    right = ttir_implicit_broadcast_fold._narrower

    def wrong(value: Any, *args: Any) -> Any:
        before = right(value, *args)
        move = maker(before, "reshape") if before is not None else None
        return move.operands[0] if move is not None else before

    patch.setattr(ttir_implicit_broadcast_fold, "_narrower", wrong)


@fault(projections)
def products_of_one_value_change_places(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        first = [op for op in ops if op.ROW.ttir == "matmul"][:2]
        if len(first) == 2 and first[0].operands[0] is first[1].operands[0]:
            first[0].operands[1], first[1].operands[1] = first[1].operands[1], first[0].operands[1]

    after_pass(patch, wrong)


@fault(chain)
def a_chain_has_one_buffer(patch: pytest.MonkeyPatch) -> None:
    """An op of three in a row reads what the one before it has written over the first one's value."""

    def wrong(ops: list[RowOp]) -> None:
        for op in ops:
            for place, value in enumerate(op.operands):
                first = maker(value)
                others = [maker(each) for each in op.operands if each is not value]
                if first is None or splat(value) is not None or maker(first.operands[0]) is None:
                    continue
                for between in others:
                    if between is not None and between.operands[0] is value and between in readers(value):
                        op.operands[place] = between.results[0]

    after_pass(patch, wrong)


class Rows(NamedTuple):
    """The rows of a form, right on a right compiler."""

    folder: Path
    alone: list[OpRow]
    """Its single ops; their files are in `folder`/base."""
    pieces: list[OpRow]
    """Its patterns; their files are in `folder`/pieces."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[..., Any]], Rows]:
    kept: dict[Callable[..., Any], Rows] = {}

    def of(form: Callable[..., Any]) -> Rows:
        if form not in kept:
            folder = tmp_path_factory.mktemp(form.__name__)
            base, alone = exported(folder / "base", text(form))
            for name in (export_folder.OPS, export_folder.VALUES):
                (folder / "pieces" / name).mkdir(parents=True)
            kept[form] = Rows(folder, alone, rows_of(base, folder / "pieces", "patterns"))
            right = verdicts(kept[form].pieces, folder / "pieces", folder / "run")
            assert {*right.values()} == {Status.SUCCESS}
        return kept[form]

    return of


OF_A_SHAPE = {
    "a_shift_takes_the_place_of_the_weight": 17,
    "a_mask_is_lost": 16,
    "a_scale_is_lost": 16,
    "a_norm_is_not_centred": 13,
    "keys_and_values_change_places": 16,
    "sine_and_cosine_change_places": 13,
    "a_weight_is_lost": 10,
    "all_angles_are_cosines": 7,
}
"""Faults that show only where a whole norm, attention or rotation is fused, and of how many ops that is."""


def smallest(row: OpRow, export_dir: Path, folder: Path, patch: pytest.MonkeyPatch) -> tuple[OpRow, list[OpRow]]:
    """What `opscope reduce` begins with of a piece: the ops around its first wrong value that show it, in this process,
    whose compiler has the fault; and for each of these ops what is left without it, in `folder`/less."""
    options = bundle.Options(backend="reference", optimization_level=2)
    context = RunContext("run", str(folder), options=ResultOptions(optimization_level=2))
    test = climb(row, Reference(), context=context, export_dir=export_dir)
    bundle.write(folder / "repro", row, test, bundle.Origin(export_dir=export_dir, options=options))

    def run(lab: Lab, row: OpRow, *, dumps: bool = False, level: int = 2) -> OpTest:
        at = replace(context, options=ResultOptions(optimization_level=level))
        return climb(row, Reference(), context=at, export_dir=lab.place)

    patch.setattr(Lab, "run", run)
    with Lab(folder / "repro", bundle.read(folder / "repro")) as lab:
        bad = first_bad.find(lab, returns=False)
        assert bad.level == 1, "nothing is fused at level 0"
        least = bad.row
        return least, without_each(least, lab.place, folder / "less")


def without_each(row: OpRow, base: Path, folder: Path) -> list[OpRow]:
    """The rows of a piece's module without one of its ops each, whose values are arguments."""
    for name in (export_folder.OPS, export_folder.VALUES):
        (folder / name).mkdir(parents=True)
    taken = folder / "taken"  # its values have numbers as names, and so have those of its module
    named = [source.model_copy(update={"path": f"of-{source.path}"}) for source in row.sources]
    for old, new in zip(row.sources, named, strict=True):
        (taken / str(new.path)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(base / str(old.path), taken / str(new.path))
    split = split_module((base / str(row.module)).read_bytes(), "net")
    row = row.model_copy(update={"sources": tuple(named)})
    line, rows = Line(split.program, uncounted(split.program)), model_pieces.Rows(split, row, taken, folder)
    walk = rows.walked({value for node in split.program.nodes for value in node.results}, {})
    less = [line.piece(set(line.places) - {place}, "less") for place in line.places] if len(line.places) > 1 else []
    return [rows.row(piece_module.content_id(piece, split, rows.parameters), piece, row.uses, walk) for piece in less]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_pattern_shows_a_fault_that_no_op_alone_does(
    rows: Callable[[Callable[..., Any]], Rows], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, seed = FAULTS[name]
    of_form = rows(form)
    seed(monkeypatch)
    assert {*verdicts(of_form.alone, of_form.folder / "base", tmp_path).values()} == {Status.SUCCESS}
    shown = verdicts(of_form.pieces, of_form.folder / "pieces", tmp_path)
    wrong = [row for row in of_form.pieces if shown[row.op_id] is Status.WRONG_RESULT]
    assert wrong, [(row.op_name, shown[row.op_id]) for row in of_form.pieces]
    least = min(wrong, key=lambda row: len(row.holds))
    least, less = smallest(least, of_form.folder / "pieces", tmp_path / "small", monkeypatch)
    assert len(least.holds) <= OF_A_SHAPE.get(name, 4), least.op_params
    assert {*verdicts(less, tmp_path / "small/less", tmp_path).values()} <= {Status.SUCCESS}, "each op is needed"
