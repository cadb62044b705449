"""Random inputs stay inside the domain of their op."""

from __future__ import annotations

import pytest

from opscope.harness.prepare.input_distributions import FLOAT_DISTRIBUTIONS, INTEGER_DISTRIBUTIONS, distribution_of
from opscope.harness.record.records import TensorDesc
from opscope.models.seeding import draw, parse_distribution


def descs(*pairs: tuple[tuple[int, ...], str]) -> list[TensorDesc]:
    return [TensorDesc(shape=shape, data_type=name) for shape, name in pairs]


@pytest.mark.parametrize("op", ["log", "sqrt", "rsqrt"])
def test_roots_and_logarithms_get_positive_values(op: str) -> None:
    distribution = distribution_of(f"stablehlo.{op}", 0, descs(((8,), "f32")), {})
    assert draw(distribution, (1000,), "float32", 0, 0).min() > 0


@pytest.mark.parametrize(("name", "dtype"), [("f32", "float32"), ("i32", "int32")])
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


def test_every_law_in_the_tables_can_be_drawn() -> None:
    for table in (FLOAT_DISTRIBUTIONS, INTEGER_DISTRIBUTIONS):
        for distributions in table.values():
            for distribution in distributions.values():
                parse_distribution(distribution)
