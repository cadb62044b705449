"""Random inputs stay inside the domain of their op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opscope.base.tests.each import each
from opscope.harness.prepare.input_distributions import FLOAT_DISTRIBUTIONS, INTEGER_DISTRIBUTIONS, distribution_of
from opscope.harness.record.records import TensorDesc
from opscope.models.seeding import draw, parse_distribution


def descs(*pairs: tuple[tuple[int, ...], str]) -> list[TensorDesc]:
    return [TensorDesc(shape=shape, data_type=name) for shape, name in pairs]


def drawn(op: str, index: int = 0, name: str = "f32", dtype: str = "float32") -> np.ndarray:
    distribution = distribution_of(f"stablehlo.{op}", index, descs(*[((8,), name)] * 5), {})
    return np.asarray(draw(distribution, (1000,), dtype, 0, 0))


@each(
    ("op", "function"),
    [
        ("log", np.log),
        ("sqrt", np.sqrt),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("log_plus_one", np.log1p),
        ("acos", np.arccos),
        ("asin", np.arcsin),
        ("atanh", np.arctanh),
        ("erf_inv", np.arctanh),
        ("acosh", np.arccosh),
    ],
)
def test_functions_have_a_value(op: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    with np.errstate(all="raise"):
        assert np.isfinite(function(drawn(op))).all()


def test_operands_of_one_sign_and_in_order() -> None:
    positive = [("power", 0), ("lgamma", 0), ("digamma", 0), ("batch_norm_inference", 4), ("batch_norm_grad", 3)]
    for op, index in [*positive, ("zeta", 1)]:
        assert drawn(op, index).min() > 0, op
    assert drawn("zeta").min() > 1
    assert set(drawn("polygamma")) <= {1, 2, 3}
    for name, dtype in (("f32", "float32"), ("i32", "int32")):
        assert drawn("clamp", 0, name, dtype).max() <= drawn("clamp", 2, name, dtype).min()
        assert abs(drawn("remainder", 1, name, dtype)).min() >= 0.5
    assert drawn("power", 0, "i32", "int32").min() >= 1
    assert drawn("power", 1, "i32", "int32").min() >= 0
    assert distribution_of("stablehlo.divide", 1, descs(((8,), "i1"), ((8,), "i1")), {}) == "bool:0.5"


@each(("name", "dtype"), [("f32", "float32"), ("i32", "int32")])
def test_divisors_stay_away_from_zero(name: str, dtype: str) -> None:
    distribution = distribution_of("stablehlo.divide", 1, descs(((8,), name), ((8,), name)), {})
    assert abs(draw(distribution, (1000,), dtype, 0, 0)).min() >= 0.5


def test_gather_indices_are_in_range() -> None:
    params = {
        "dimension_numbers": "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1>",
        "slice_sizes": "array<i64: 1, 768>",
    }
    assert (
        distribution_of("stablehlo.gather", 1, descs(((30522, 768), "f32"), ((128, 1), "i32")), params) == "int:0:30522"
    )
    assert distribution_of("stablehlo.gather", 0, descs(((30522, 768), "f32"), ((128, 1), "i32")), params) == "normal:1"


def test_slices_fit() -> None:
    inputs = descs(((10, 20), "f32"), ((), "i32"), ((), "i32"))
    params = {"slice_sizes": "array<i64: 4, 20>"}
    distributions = [distribution_of("stablehlo.dynamic_slice", i, inputs, params) for i in range(3)]
    assert distributions == ["normal:1", "int:0:7", "int:0:1"]
    inputs = descs(((10, 20), "f32"), ((4, 5), "f32"), ((), "i32"), ((), "i32"))
    distributions = [distribution_of("stablehlo.dynamic_update_slice", i, inputs, {}) for i in range(4)]
    assert distributions == ["normal:1", "normal:1", "int:0:7", "int:0:16"]


def test_windows_fit_in_every_dim_that_an_index_names() -> None:
    params = {
        "dimension_numbers": "#stablehlo.gather<offset_dims = [0], start_index_map = [0, 2], index_vector_dim = 1>",
        "slice_sizes": "array<i64: 3, 9, 2>",
    }
    inputs = descs(((10, 9, 6), "f32"), ((4, 2), "i32"))
    assert distribution_of("stablehlo.gather", 1, inputs, params) == "int:0:5"
    whole = {**params, "slice_sizes": "array<i64: 3, 9, 6>"}
    assert distribution_of("stablehlo.gather", 1, inputs, whole) == "int:0:1"
    params = {"scatter_dimension_numbers": "#stablehlo.scatter<scatter_dims_to_operand_dims = [2, 0]>"}
    inputs = descs(((10, 9, 6), "f32"), ((4, 2), "i32"), ((4, 9), "f32"))
    assert [distribution_of("stablehlo.scatter", i, inputs, params) for i in (0, 1)] == ["normal:1", "int:0:6"]
    inputs = descs(((10, 9, 6), "f32"), ((4,), "i32"))
    assert distribution_of("stablehlo.torch_index_select", 1, inputs, {"dim": "1 : i64"}) == "int:0:9"
    assert distribution_of("stablehlo.torch_index_select", 1, inputs, {}) == "int:0:10"
    inputs = descs(((8,), "ui16"), ((8,), "ui16"))
    assert [distribution_of("stablehlo.shift_left", i, inputs, {}) for i in (0, 1)] == ["int:0:8", "int:0:16"]


def test_where_nothing_is_named_or_nothing_else_fits_there_is_one_index() -> None:
    inputs = descs(((1, 9), "f32"), ((4, 1), "i32"), ((4, 9), "f32"))
    named = {"scatter_dimension_numbers": "#stablehlo.scatter<scatter_dims_to_operand_dims = [0]>"}
    for params in (named, {}):
        assert distribution_of("stablehlo.scatter", 1, inputs, params) == "int:0:1"
    assert distribution_of("stablehlo.gather", 1, inputs, {"slice_sizes": "array<i64: 1, 9>"}) == "int:0:1"
    assert distribution_of("stablehlo.torch_index_select", 1, inputs, {"dim": "0 : i64"}) == "int:0:1"
    assert distribution_of("stablehlo.dynamic_slice", 1, inputs, {}) == "int:-8:8"
    two = [*inputs[:1], *inputs[:2], *inputs[2:], *inputs[2:]]  # two operands, the indices, two updates
    assert [distribution_of("stablehlo.scatter", i, two, named) for i in range(3)] == [
        "normal:1",
        "normal:1",
        "int:0:1",
    ]
    widths = descs(((8,), "ui16"), ((8,), "ui8"))
    assert distribution_of("stablehlo.shift_right_logical", 1, widths, {}) == "int:0:16"


def test_counters_start_at_zero_and_other_values_anywhere() -> None:
    inputs = descs(((), "i32"), ((), "ui8"), ((2,), "i32"), ((), "f32"))
    laws = [distribution_of("stablehlo.while", i, inputs, {}) for i in range(4)]
    assert laws == ["zeros", "zeros", "int:-8:8", "normal:1"]
    names = ("i1", "ui2", "ui8", "i2", "i64", "f8E8M0FNU", "bf16", "complex<f32>")
    assert [distribution_of("stablehlo.add", 0, descs(((8,), name)), {}) for name in names] == [
        "bool:0.5",
        "int:0:4",
        "int:0:8",
        "int:-2:2",
        "int:-8:8",
        "uniform:1:4",
        "normal:1",
        "normal:1",
    ]


def test_every_distribution_in_the_tables_can_be_drawn() -> None:
    for table in (FLOAT_DISTRIBUTIONS, INTEGER_DISTRIBUTIONS):
        for distributions in table.values():
            for distribution in distributions.values():
                parse_distribution(distribution)
