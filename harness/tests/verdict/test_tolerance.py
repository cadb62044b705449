"""The tolerance table: published start values, and which row an op gets."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from opscope.base.op_families import op_family
from opscope.base.tests.each import each
from opscope.harness.backends.base import Target
from opscope.harness.record.records import TensorDesc
from opscope.harness.verdict import (
    check,
    compare,
    displaced,
    eight_bits,
    halves,
    meaning,
    moments,
    operands,
    other_steps,
    places,
    scores,
    steps,
)
from opscope.harness.verdict import tolerance as table
from opscope.harness.verdict.tolerance import TABLE, VERSION, inner_size, tolerance

DEVICE = Target("sim-n150", None, "HiFi4", "Tf32")
HOST = Target("host", None, "exact")


CONV = {"dimension_numbers": "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"}


def dot(left, right, batch=()):
    """The attribute as MLIR prints it: what is empty is left out."""
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    dims_of = zip(names, (list(batch), list(batch), left, right), strict=True)
    parts = [f"{name}_dimensions = {dims}" for name, dims in dims_of if dims]
    return {"dot_dimension_numbers": f"#stablehlo.dot<{', '.join(parts)}>"}


def device(fidelity="HiFi4", float_format=None):
    return Target("sim-n150", float_format, fidelity, "Tf32")


@each(
    ("target", "op", "element", "l2", "pcc"),
    [
        (DEVICE, "add", "f32", 1e-5, 0.99999),
        (DEVICE, "exponential", "f32", 1e-5, 0.99999),
        (DEVICE, "dot_general", "f32", 4e-3, 0.9999),
        (DEVICE, "reduce", "f32", 1e-5, 0.99999),
        (device("HiFi2"), "dot_general", "f32", 2e-2, 0.99),
        (device("LoFi"), "convolution", "f32", 9e-2, 0.99),
        (device("LoFi"), "add", "f32", 1e-5, 0.99999),
        (device("LoFi"), "multiply", "f32", 1e-5, 0.99999),
        (device("LoFi"), "multiply", "bf16", 8e-2, 0.99),
        (device("LoFi"), "add", "bf16", 6e-3, 0.999),
        (device("HiFi2", "Float16_b"), "multiply", "f32", 1.5e-2, 0.99),
        (DEVICE, "add", "bf16", 6e-3, 0.999),
        (DEVICE, "dot_general", "bf16", 6e-3, 0.999),
        (device("HiFi2"), "dot_general", "bf16", 1.5e-2, 0.99),
        (device("LoFi"), "dot_general", "bf16", 8e-2, 0.99),
        (device(float_format="Bfp8_b"), "add", "f32", 3e-2, 0.99),
        (device(float_format="Bfp4_b"), "dot_general", "bf16", 0.5, 0.94),
        (device(float_format="Float32"), "add", "bf16", 6e-3, 0.999),
        (replace(DEVICE, matrix_format=None), "dot_general", "f32", 1e-5, 0.99999),
        (replace(device("HiFi2"), matrix_format=None), "dot_general", "bf16", 1.5e-2, 0.99),
        (replace(HOST, matrix_format="Tf32"), "dot_general", "f32", 1e-5, 0.99999),
        (replace(HOST, tf32_products=True), "dot_general", "f32", 2e-3, 0.9999),
        (replace(HOST, tf32_products=True), "dot_general", "bf16", 6e-3, 0.999),
        (replace(HOST, tf32_products=True), "dot_general", "f64", 1e-10, 0.99999),
        (replace(HOST, tf32_products=True), "reduce", "f32", 1e-5, 0.99999),
        (replace(HOST, tf32_products=True), "add", "f32", 0, 1),
        (replace(HOST, tf32_products=True), "divide", "f32", 1e-5, 0.99999),
        (replace(DEVICE, narrow_dst=True), "dot_general", "bf16", 4e-2, 0.999),
        (replace(device("LoFi"), narrow_dst=True), "dot_general", "bf16", 8e-2, 0.99),
        (replace(DEVICE, narrow_dst=True), "multiply", "bf16", 6e-3, 0.999),
        (replace(DEVICE, narrow_dst=True), "add", "bf16", 6e-3, 0.999),
        (HOST, "dot_general", "f32", 1e-5, 0.99999),
        (HOST, "dot_general", "bf16", 6e-3, 0.999),
        (DEVICE, "transpose", "f32", 0, 1),
        (DEVICE, "gather", "bf16", 0, 1),
        (device(float_format="Bfp8_b"), "transpose", "f32", 3e-2, 0.99),
        (device(float_format="Float16_b"), "transpose", "bf16", 0, 1),
        (DEVICE, "add", "i32", 0, 1),
        (DEVICE, "compare", "i1", 0, 1),
        # What products read is narrowed, if it is not narrower anyway; what only adds reads what is there.
        (replace(DEVICE, product_format="Bfp8_b"), "dot_general", "f32", 3e-2, 0.99),
        (replace(DEVICE, product_format="Bfp8_b"), "add", "f32", 1e-5, 0.99999),
        (replace(DEVICE, product_format="Bfp8_b"), "reduce", "f32", 1e-5, 0.99999),
        (replace(device(float_format="Bfp4_b"), product_format="Bfp8_b"), "dot_general", "bf16", 0.5, 0.94),
        (device("LoFi"), "dot_general", "ui8", 0, 1),
    ],
)
def test_rows(target, op, element, l2, pcc):
    row = tolerance(target, op_family(f"stablehlo.{op}"), element, op_name=f"stablehlo.{op}")
    assert (row.relative_l2, row.pcc) == (l2, pcc)


def test_a_whole_model_may_be_five_times_as_far_off_and_is_judged_as_a_whole():
    row = tolerance(DEVICE, "whole_model", "f32", 4 * 2304)
    assert (row.name, row.by_element) == ("Float32 matrix HiFi4, whole model", False)
    assert (row.relative_l2, row.pcc) == (pytest.approx(2e-2), pytest.approx(1 - 5e-4))
    assert tolerance(DEVICE, "norm", "f32") == replace(TABLE["Float32 matrix HiFi4"], by_element=False)


def test_single_elements_may_be_off_by_ten_times_the_whole_or_in_blocks_by_four_times_and_half_at_most():
    limits = [TABLE[name].single for name in ("Float16_b", "Bfp8", "Bfp4", "Float32 matrix LoFi")]
    assert limits == pytest.approx([6e-2, 0.12, 0.5, 0.9])


def test_sums_grow_with_the_root_of_k_above_the_reference():
    assert tolerance(DEVICE, "pool", "f32", 2304) is TABLE["Float32 matrix HiFi4"]
    row = tolerance(DEVICE, "pool", "f32", 4 * 2304)
    assert (row.name, row.by_element) == ("Float32 matrix HiFi4 K=9216", True)
    assert (row.relative_l2, row.pcc) == (pytest.approx(8e-3), pytest.approx(1 - 4e-4))
    assert tolerance(DEVICE, "eltwise", "f32", 4 * 2304).relative_l2 == 1e-5


@each(
    ("op", "body", "element", "float_format", "name"),
    [
        ("reduce", "stablehlo.add", "f32", None, "Float32"),
        ("reduce", "stablehlo.add", "bf16", None, "Float16_b matrix HiFi4"),
        ("pool", None, "f32", None, "Float32 matrix HiFi4"),
        ("reduce", "stablehlo.multiply", "f32", None, "Float32"),
        ("reduce", "stablehlo.maximum", "f32", None, "exact"),
        ("reduce", "stablehlo.maximum", "bf16", None, "exact"),
        ("reduce", "stablehlo.maximum", "bf16", "Float32", "exact"),
        ("reduce", "stablehlo.maximum", "f32", "Float16_b", "Float16_b"),
        ("reduce", "stablehlo.maximum", "f32", "Bfp8_b", "Bfp8"),
        ("reduce", "stablehlo.compare, stablehlo.select, stablehlo.select", "f32", None, "exact"),
        ("reduce", "stablehlo.abs, stablehlo.maximum", "f32", None, "Float32"),
        ("reduce_window", "stablehlo.minimum", "f32", None, "exact"),
        ("reduce_window", "stablehlo.add", "bf16", None, "Float16_b matrix HiFi4"),
        ("scatter", "", "f32", None, "exact"),
        ("scatter", "stablehlo.add", "f32", None, "Float32"),
        ("select_and_scatter", "stablehlo.compare; stablehlo.add", "f32", None, "Float32"),
        ("select_and_scatter", "stablehlo.compare; stablehlo.maximum", "f32", None, "exact"),
    ],
)
def test_a_body_decides_what_a_reduction_computes(op, body, element, float_format, name):
    row = tolerance(device(float_format=float_format), op_family(f"stablehlo.{op}"), element, body=body)
    assert row.name == name


@each(
    ("op", "element", "float_format", "ulp", "l2"),
    [
        ("add", "f32", None, 0.5, 2 * 2**-23),
        ("tanh", "f32", None, 4, 16 * 2**-23),
        ("negate", "f32", None, 0, 0),
        ("abs", "f32", None, 1, 4 * 2**-23),
        ("tanh", "f32", None, None, 1e-5),
        ("tanh", "bf16", None, 4, 6e-3),
        ("tanh", "f32", "Float16_b", 4, 6e-3),
        ("dot_general", "f32", None, 4, 4e-3),
    ],
)
def test_a_stated_error_bound_tightens_float32_outside_the_matrix_unit(op, element, float_format, ulp, l2):
    row = tolerance(device(float_format=float_format), op_family(f"stablehlo.{op}"), element, ulp=ulp)
    assert row.relative_l2 == pytest.approx(l2)
    assert row.exact is (ulp == 0)


def test_only_elements_of_their_own_are_judged_without_outliers():
    kinds = ("eltwise", "reduce", "matmul", "conv", "pool", "scatter", "linalg", "norm", "control", "custom", "other")
    assert [kind for kind in kinds if not tolerance(DEVICE, kind, "f32").by_element] == list(kinds[6:])


def test_goldens_by_formula_get_a_wider_margin():
    assert tolerance(DEVICE, "eltwise", "f32", op_name="chlo.erf", ulp=2).relative_l2 == pytest.approx(32 * 2**-23)


@each(
    ("op", "shapes", "out", "params", "inner"),
    [
        ("reduce", [(8, 100), ()], (8,), {}, 100),
        ("dot_general", [(8, 64), (64, 16)], (8, 16), dot([1], [0]), 64),
        ("dot_general", [(12, 128, 64), (12, 64, 128)], (12, 128, 128), dot([2], [1], batch=[0]), 64),
        ("dot_general", [(4, 3, 5, 8), (3, 5, 4)], (8,), dot([0, 1, 2], [2, 0, 1]), 60),
        ("dot_general", [(8,), (16,)], (8, 16), dot([], []), 1),
        ("dot", [(8, 64), (64, 16)], (8, 16), {}, 64),
        ("dot", [(8, 1), (1, 16)], (8, 16), {}, 1),
        ("convolution", [(1, 56, 56, 64), (3, 3, 64, 128)], (1, 56, 56, 128), CONV, 576),
        ("convolution", [(1, 28, 28, 256), (3, 3, 1, 256)], (1, 28, 28, 256), CONV, 9),
        (
            "convolution",
            [(1, 64, 9, 9), (64, 32, 3, 3)],
            (1, 64, 7, 7),
            {"dimension_numbers": "#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>"},
            288,
        ),
        ("reduce_window", [(1, 8, 8, 3), ()], (1, 4, 4, 3), {"window_dimensions": "array<i64: 1, 3, 3, 1>"}, 9),
        ("add", [(8,), (8,)], (8,), {}, 1),
        ("reduce", [(8,), ()], (8,), {}, 1),
        ("reduce", [(100,), ()], (), {}, 100),
        ("reduce", [(5, 0), ()], (0,), {}, 1),
        ("reduce", [], (8,), {}, 1),
        ("reduce", [(8, 100)], None, {}, 1),
        ("dot_general", [(8, 64)], (8, 16), dot([1], [0]), 1),
        ("convolution", [(1, 5, 5, 1), (1, 1, 1, 8)], (1, 5, 5, 8), CONV, 1),
        ("convolution", [(1, 5, 5, 2), (3, 3, 2, 1)], (1, 3, 3, 1), CONV, 18),
        ("convolution", [(1, 5, 5, 2), (3, 3, 2, 4)], (1, 3, 3, 4), {}, 18),
        ("reduce_window", [(8, 8), ()], (8, 8), {"window_dimensions": "array<i64: 1, 1>"}, 1),
        ("reduce_window", [(8, 8), ()], (8, 8), {}, 1),
    ],
)
def test_inner_sizes(op, shapes, out, params, inner):
    descs = [TensorDesc(shape=shape, data_type="f32") for shape in shapes]
    result = [] if out is None else [TensorDesc(shape=out, data_type="f32")]
    assert inner_size(op_family(f"stablehlo.{op}"), descs, result, params) == inner


def test_every_stablehlo_op_has_a_kind():
    """Against jaxlib's generated classes."""
    from jaxlib.mlir.dialects import stablehlo

    names = {value.OPERATION_NAME for value in vars(stablehlo).values() if hasattr(value, "OPERATION_NAME")}
    names -= {"stablehlo.return"}
    assert len(names) > 100
    assert {name for name in names if op_family(name) == "other"} == set()


def test_a_figure_of_the_verdict_changes_only_with_the_version_that_cached_verdicts_are_kept_by():
    """A new figure needs a measurement in docs/measurements.yaml, a new VERSION and its digest here."""
    figures = [
        f"{module.__name__}.{name} {sorted(value.items()) if isinstance(value, dict) else value}"
        for module in (
            table,
            check,
            compare,
            scores,
            steps,
            operands,
            meaning,
            displaced,
            eight_bits,
            moments,
            other_steps,
            places,
            halves,
        )
        for name, value in sorted(vars(module).items())
        if name in ("TABLE", "FRACTION_BITS", "KEPT")
        or (name != "VERSION" and name.isupper() and type(value) in (int, float))
    ]
    assert len(figures) > 30
    digest = hashlib.sha256("\n".join(figures).encode()).hexdigest()[:16]
    assert {27: "a6b7007151a4e1ec"}.get(VERSION) == digest, "\n".join(figures)


def test_the_page_of_the_error_model_is_that_of_this_version():
    page = (Path(__file__).resolve().parents[3] / "docs" / "verdicts.md").read_text(encoding="utf-8")
    assert f"Tolerance version {VERSION} " in page
