"""Faults of passes that no op alone shows: fusions, moves, casts, values computed once, buffers. Pieces show them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import make, maker, shape_of
from opscope.compiler.ir.functions import CONST_EVAL, functions, kind_of
from opscope.compiler.passes import ttnn_deallocate, ttnn_fusing
from opscope.compiler.passes.const_eval_hoist_transform import ConstEvalHoistTransform
from opscope.compiler.passes.ttir_fusing import activations, attention, convolutions, norm, reductions, rotary
from opscope.compiler.passes.ttir_fusing.matching import orders
from opscope.compiler.passes.ttir_implicit_broadcast_fold import TtirImplicitBroadcastFold
from opscope.compiler.tests import programs
from opscope.harness.cache import export_folder
from opscope.harness.prepare.model_pieces import rows_of
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow
from opscope.harness.record.stages import FAILED, Status
from opscope.harness.tests.programs import test_patterns as of_patterns
from opscope.harness.tests.programs.test_model_pieces import exported, verdicts
from opscope.harness.tests.programs.test_patterns import after_pass, changed, with_operands

pytestmark = pytest.mark.slow

WORKFLOWS = ("patterns", "windows:4")
ROWS, WIDE = (32, 64), (32, 48)

# --- what models compute


def gelu(x, y):
    return jax.nn.gelu(x + y, approximate=False)


def swish(x, y):
    value = x + y
    return value * jax.nn.sigmoid(value)


def average(x, y):
    return (x * y).mean(-1)


def sharp_softmax(x):
    return jax.nn.softmax(x * 3.0, axis=-1)


def rms_norm(x, weight):
    moved = x + 1.0
    return moved * jax.lax.rsqrt((moved * moved).mean(-1, keepdims=True) + 1e-6) * weight


def biased_convolution(image, weight, bias, shift):
    dims = ("NHWC", "HWIO", "NHWC")
    made = jax.lax.conv_general_dilated(image, weight, (1, 1), "SAME", dimension_numbers=dims)
    return made + bias + shift


def moved_twice(x):
    return jnp.sin(jnp.transpose(jnp.tanh(jnp.transpose(x, (1, 2, 0))), (1, 2, 0)))


def gated_product(x, weight):
    product = x @ weight
    return jnp.tanh(product) + product * 0.5


def whole_numbers(x):
    return (x * 5.0).astype(jnp.int32).astype(jnp.float32) + x


def flat_transpose(x, y):
    return jnp.exp((x * y).T.reshape(-1) * 0.1)


def second_half(x, y):
    return jnp.tanh(jnp.concatenate([x, y], axis=1)[:, 64:])


def scaled_weight(x, weight, scale):
    return x @ (weight * scale)


def distances(x, y):
    centred = jnp.tanh(x) - y
    return jnp.exp(centred) * centred


def larger(x, y):
    return jnp.where(x > y, x, y) * 2.0


def powers(x, y):
    return jnp.exp(x) * jnp.exp(y)


def difference(x, y):
    return jnp.abs(x - x * y)


FORMS: dict[Callable[..., Any], tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]] = {
    gelu: ((ROWS, ROWS), ()),
    swish: ((ROWS, ROWS), ()),
    average: ((ROWS, ROWS), ()),
    sharp_softmax: ((ROWS,), ()),
    rms_norm: ((ROWS, (64,)), ()),
    biased_convolution: (
        ((1, 8, 8, 32), (3, 3, 32, 32), (32,), (32,)),
        ("input", "parameter", "parameter", "parameter"),
    ),
    moved_twice: (((8, 8, 8),), ()),
    gated_product: ((ROWS, (64, 48)), ()),
    whole_numbers: ((ROWS,), ()),
    flat_transpose: ((ROWS, ROWS), ()),
    second_half: ((ROWS, ROWS), ()),
    scaled_weight: ((ROWS, (64, 48), (48,)), ("input", "parameter", "parameter")),
    distances: ((ROWS, ROWS), ()),
    larger: ((ROWS, ROWS), ()),
    powers: ((ROWS, ROWS), ()),
    difference: ((ROWS, ROWS), ()),
    **{form: (of_patterns.FORMS[form], ()) for form in (of_patterns.gate, of_patterns.layer_norm)},
    **{form: (of_patterns.FORMS[form], ()) for form in (of_patterns.rotated, of_patterns.masked_attention)},
    of_patterns.projections: (of_patterns.FORMS[of_patterns.projections], ()),
}
"""What models compute -> the shapes of the arguments, and which of these are parameters."""


# --- what breaks the compiler


class Fault(NamedTuple):
    """What breaks the reference compiler, and the model that it breaks."""

    form: Callable[..., Any]
    seed: Callable[[pytest.MonkeyPatch], None]


FAULTS: dict[str, Fault] = {}


def fault(form: Callable[..., Any]) -> Callable[[Callable[[pytest.MonkeyPatch], None]], None]:
    def note(seed: Callable[[pytest.MonkeyPatch], None]) -> None:
        FAULTS[seed.__name__] = Fault(form, seed)

    return note


def replaced_by(name: str, **attrs: Any) -> Callable[[RowOp, list[RowOp]], list[RowOp]]:
    """The fused op with another name."""
    return lambda op, ops: [*ops[:-1], make(name, ops[-1].operands, op.results[0].type, op, **attrs)]


def with_attributes(**attrs: Any) -> Callable[[RowOp, list[RowOp]], list[RowOp]]:
    """The fused op with other attributes."""
    return lambda op, ops: with_operands(op, ops, (0, 1, 2, 3), **attrs)


def before_moves(patch: pytest.MonkeyPatch, change: Callable[[list[RowOp]], None]) -> None:
    """Changes the program before `ttir-erase-inverse-ops`, which would leave nothing to break."""
    after_pass(patch, change, TtirImplicitBroadcastFold)


def in_place(op: RowOp, by: Any) -> None:
    op.results[0].replace_all_uses_with(by)


@fault(gelu)
def a_gelu_is_a_silu(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("multiply",), activations.gelu, replaced_by("silu"))


@fault(of_patterns.gate)
def a_sigmoid_reads_the_negative(patch: pytest.MonkeyPatch) -> None:
    def wrong(op: RowOp, ops: list[RowOp]) -> list[RowOp]:
        turned = make("neg", ops[-1].operands, op.results[0].type, op)
        return [turned, make("sigmoid", turned.results, op.results[0].type, op)]

    changed(patch, ("div",), activations.sigmoid, wrong)


@fault(average)
def a_mean_is_a_sum(patch: pytest.MonkeyPatch) -> None:
    changed(
        patch,
        ("div",),
        reductions.mean,
        lambda op, ops: [make("sum", ops[0].operands, op.results[0].type, op, **ops[0].read())],
    )


@fault(sharp_softmax)
def a_softmax_reads_what_is_before_its_scale(patch: pytest.MonkeyPatch) -> None:
    def wrong(op: RowOp, ops: list[RowOp]) -> list[RowOp]:
        shift = maker(ops[-1].operands[0], "subtract")
        scale = maker(shift.operands[0] if shift is not None else ops[-1].operands[0], "multiply")
        if scale is not None:
            ops[-1].operands[0] = next(value for value, _ in orders(scale) if maker(value) is None)
        return ops

    changed(patch, ("div",), reductions.softmax, wrong)


@fault(rms_norm)
def a_norm_of_squares_is_centred(patch: pytest.MonkeyPatch) -> None:
    def wrong(op: RowOp, ops: list[RowOp]) -> list[RowOp]:
        if ops[-1].ROW.ttir != "rms_norm":
            return ops
        return [*ops[:-1], make("layer_norm", ops[-1].operands, op.results[0].type, op, **ops[-1].read())]

    changed(patch, ("multiply", "div"), norm.normalised, wrong)


@fault(of_patterns.layer_norm)
def a_norms_epsilon_is_one(patch: pytest.MonkeyPatch) -> None:
    def wrong(op: RowOp, ops: list[RowOp]) -> list[RowOp]:
        attrs = ops[-1].read() | {"epsilon": 1.0}
        return [*ops[:-1], make(ops[-1].ROW.ttir, ops[-1].operands, op.results[0].type, op, **attrs)]

    changed(patch, ("multiply", "div"), norm.normalised, wrong)


@fault(of_patterns.layer_norm)
def a_norms_shift_is_lost(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("add",), norm.shifted, lambda op, ops: with_operands(op, ops, (0, 1)))


@fault(of_patterns.rotated)
def an_angle_turns_the_other_way(patch: pytest.MonkeyPatch) -> None:
    def wrong(op: RowOp, ops: list[RowOp]) -> list[RowOp]:
        value, cosine, sine = ops[-1].operands
        turned = make("neg", [sine], sine.type, op)
        return [
            *ops[:-1],
            turned,
            make("rotary_embedding", [value, cosine, turned.results[0]], op.results[0].type, op),
        ]

    changed(patch, ("add",), rotary.turned, wrong)


@fault(of_patterns.masked_attention)
def a_scale_is_applied_twice(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("matmul",), attention.attention, with_attributes(scale=0.125**2))


@fault(of_patterns.masked_attention)
def an_attention_reads_its_queries_as_keys(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("matmul",), attention.attention, lambda op, ops: with_operands(op, ops, (0, 0, 2, 3)))


@fault(biased_convolution)
def a_convolution_loses_its_first_bias(patch: pytest.MonkeyPatch) -> None:
    def wrong(op: RowOp, ops: list[RowOp]) -> list[RowOp]:
        total = maker(ops[-1].operands[2], "add")
        if total is None:
            return ops
        operands = [*ops[-1].operands[:2], total.operands[1]]
        kept = [each for each in ops[:-1] if each is not total]
        return [*kept, make("conv2d", operands, op.results[0].type, op, **ops[-1].read())]

    changed(patch, ("add",), convolutions.raised, wrong)


@fault(moved_twice)
def equal_transposes_cancel(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        for op in ops:
            between = maker(op.operands[0], "tanh") if op.ROW.ttir == "permute" else None
            first = maker(between.operands[0], "permute") if between is not None else None
            if between is not None and first is not None:
                between.operands[0] = first.operands[0]
                in_place(op, between.results[0])

    before_moves(patch, wrong)


@fault(gated_product)
def a_product_that_two_read_takes_the_activation_of_one(patch: pytest.MonkeyPatch) -> None:
    right = ttnn_fusing._fuse

    def wrong(op: RowOp) -> None:
        product = op.operands[0].owner
        if not isinstance(product, RowOp) or product.ROW.ttir not in ttnn_fusing.PRODUCTS:
            right(op)
            return
        product.properties["activation"] = StringAttr(ttnn_fusing._activation(op))
        in_place(op, op.operands[0])
        op.detach()
        op.erase()

    patch.setattr(ttnn_fusing, "_fuse", wrong)


@fault(of_patterns.projections)
def products_of_one_value_are_one(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        products = [op for op in ops if op.ROW.ttir == "matmul"]
        for other in products[1:]:
            if other.operands[0] is products[0].operands[0] and other.results[0].type == products[0].results[0].type:
                in_place(other, products[0].results[0])

    after_pass(patch, wrong)


@fault(whole_numbers)
def casts_to_whole_numbers_and_back_cancel(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        for op in ops:
            first = maker(op.operands[0], "typecast") if op.ROW.ttir == "typecast" else None
            if first is not None and first.operands[0].type == op.results[0].type:
                in_place(op, first.operands[0])

    after_pass(patch, wrong)


@fault(flat_transpose)
def a_transpose_before_a_reshape_is_lost(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        for op in ops:
            first = maker(op.operands[0], "permute") if op.ROW.ttir == "reshape" else None
            if first is not None:
                op.operands[0] = first.operands[0]

    before_moves(patch, wrong)


@fault(second_half)
def a_part_of_two_values_is_that_of_the_first(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        for op in ops:
            both = maker(op.operands[0], "concat") if op.ROW.ttir == "slice_static" else None
            if both is not None and shape_of(both.operands[0]) == shape_of(op.results[0]):
                in_place(op, both.operands[0])

    after_pass(patch, wrong)


@fault(scaled_weight)
def what_is_computed_once_lacks_its_last_step(patch: pytest.MonkeyPatch) -> None:
    right = ConstEvalHoistTransform.apply

    def wrong(self: ConstEvalHoistTransform, ctx: Any, op: ModuleOp) -> None:
        right(self, ctx, op)
        for func in functions(op):
            for each in func.walk() if kind_of(func) == CONST_EVAL else ():
                if isinstance(each, RowOp) and each.ROW.ttir == "multiply":
                    in_place(each, next(v for v in each.operands if v.type == each.results[0].type))

    patch.setattr(ConstEvalHoistTransform, "apply", wrong)


@fault(distances)
def a_value_is_freed_before_its_last_reader(patch: pytest.MonkeyPatch) -> None:
    right = ttnn_deallocate._free

    def wrong(block: Any) -> None:
        right(block)
        for op in list(block.ops):
            if op.name == "ttnn.deallocate":
                uses = [use.operation for use in op.operands[0].uses if use.operation is not op]
                if len(uses) > 1:
                    last = max(uses, key=lambda each: list(block.ops).index(each))
                    op.detach()
                    block.insert_op_before(op, last)

    patch.setattr(ttnn_deallocate, "_free", wrong)


@fault(larger)
def the_larger_of_two_is_the_smaller(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        for op in ops:
            if op.ROW.ttir == "where" and maker(op.operands[0], "gt", "greater_than") is not None:
                op.operands[1], op.operands[2] = op.operands[2], op.operands[1]

    after_pass(patch, wrong)


@fault(powers)
def a_product_of_powers_is_a_power_of_the_product(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        for op in ops:
            both = [maker(value, "exp") for value in op.operands] if op.ROW.ttir == "multiply" else [None]
            if all(each is not None for each in both):
                op.operands[0] = both[0].operands[0]

    after_pass(patch, wrong)


@fault(difference)
def a_difference_with_a_product_has_the_other_sign(patch: pytest.MonkeyPatch) -> None:
    def wrong(ops: list[RowOp]) -> None:
        for op in ops:
            if op.ROW.ttir == "subtract" and maker(op.operands[1], "multiply") is not None:
                first = make("add", op.operands, op.results[0].type, op)
                op.parent.insert_op_before(first, op)
                in_place(op, first.results[0])

    after_pass(patch, wrong)


@fault(swish)
def a_swish_is_a_sigmoid(patch: pytest.MonkeyPatch) -> None:
    changed(patch, ("multiply",), activations.silu, replaced_by("sigmoid"))


# --- what shows them


class Rows(NamedTuple):
    """The rows of a form, right on a right compiler."""

    folder: Path
    alone: list[OpRow]
    """Its single ops; their files are in `folder`/base."""
    pieces: dict[str, list[OpRow]]
    """Workflow -> its pieces; their files are in `folder`/WORKFLOW."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[..., Any]], Rows]:
    kept: dict[Callable[..., Any], Rows] = {}

    def of(form: Callable[..., Any]) -> Rows:
        if form not in kept:
            folder = tmp_path_factory.mktemp(form.__name__)
            shapes, roles = FORMS[form]
            text = programs.stablehlo(form, *(jnp.zeros(shape, np.float32) for shape in shapes))
            base, alone = exported(folder / "base", text, roles)
            pieces = {}
            for workflow in WORKFLOWS:
                for name in (export_folder.OPS, export_folder.VALUES):
                    (folder / workflow / name).mkdir(parents=True)
                with contextlib.suppress(InputError):  # nothing that a row of the table names
                    pieces[workflow] = rows_of(base, folder / workflow, workflow)
            for workflow, made in pieces.items():
                assert {*verdicts(made, folder / workflow, folder / "run").values()} == {Status.SUCCESS}, workflow
            kept[form] = Rows(folder, alone, pieces)
        return kept[form]

    return of


@pytest.mark.parametrize("name", FAULTS)
def test_pieces_show_a_fault_of_a_pass_that_no_op_alone_does(
    rows: Callable[[Callable[..., Any]], Rows], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, seed = FAULTS[name]
    of_form = rows(form)
    seed(monkeypatch)
    assert {*verdicts(of_form.alone, of_form.folder / "base", tmp_path).values()} == {Status.SUCCESS}
    shown = {
        workflow: {*verdicts(pieces, of_form.folder / workflow, tmp_path).values()} & FAILED
        for workflow, pieces in of_form.pieces.items()
    }
    assert any(shown.values())
