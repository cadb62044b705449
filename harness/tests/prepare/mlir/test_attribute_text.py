"""Integers in the text of attributes: read in every form, put back, and a dimension taken out of them."""

from __future__ import annotations

import pytest

from opscope.base.tests.each import each
from opscope.harness.prepare.mlir.attribute_text import integers, is_array, with_integers, without_dimension


@each(
    ("text", "values", "others", "again"),
    [
        ("array<i64: 1, -2>", (1, -2), [3], "array<i64: 3>"),
        ("array<i32: 7>", (7,), [], "array<i32>"),
        (
            "dense<[[1, 2, 3], [4, -5, 6]]> : tensor<2x3xi64>",
            (1, 2, 3, 4, -5, 6),
            [9, 8, 7, 6, 5, 4],
            "dense<[[9, 8, 7], [6, 5, 4]]> : tensor<2x3xi64>",
        ),
        ("dense<0> : tensor<2x2xi64>", (0, 0, 0, 0), [1, 2, 3, 4], "dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>"),
        (
            "dense<[[[1, 2]], [[3, 4]], [[5, 6]]]> : tensor<3x1x2xi64>",
            (1, 2, 3, 4, 5, 6),
            [6, 5, 4, 3, 2, 1],
            "dense<[[[6, 5]], [[4, 3]], [[2, 1]]]> : tensor<3x1x2xi64>",
        ),
        ("-3 : i32", (-3,), [4], "4 : i32"),
    ],
)
def test_integers_are_read_and_put_back(text: str, values: tuple[int, ...], others: list[int], again: str) -> None:
    assert integers(text) == values
    assert with_integers(text, others) == again
    assert is_array(text) is text.startswith("array")


def test_anything_else_has_none() -> None:
    assert integers("dense<1.5> : tensor<2xf32>") == ()
    with pytest.raises(ValueError, match=r"expected integers, got '#stablehlo.dot<>'"):
        with_integers("#stablehlo.dot<>", [1])


@each(
    ("text", "rank", "dim", "texts"),
    [
        # Sizes: shorter by the entry of the dimension. Numbers of dimensions: renumbered. Or as it is.
        ("array<i64: 4, 8, 16>", 3, 1, ["array<i64: 4, 16>", "array<i64: 4, 8, 16>"]),
        ("array<i64: 0, 2>", 3, 1, ["array<i64: 0, 1>", "array<i64: 0, 2>"]),
        ("array<i64: 0, 2>", 3, 2, ["array<i64: 0>", "array<i64: 0, 2>"]),
        ("array<i64: 2, 0, 1>", 3, 0, ["array<i64: 1, 0>", "array<i64: 0, 1>", "array<i64: 2, 0, 1>"]),
        ("array<i64: -1, 0>", 3, 0, ["array<i64: -1, 0>"]),
        ("array<i64: 3, 0>", 3, 1, ["array<i64: 3, 0>"]),
        ("2 : i64", 3, 1, ["2 : i64"]),
    ],
)
def test_attributes_without_a_dimension(text: str, rank: int, dim: int, texts: list[str]) -> None:
    assert without_dimension(text, rank, dim) == texts
